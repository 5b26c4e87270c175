/** Of several questions of a kind only the newest one is answered. */

/**
 * Return a function that makes a signal, and aborts the one that it has made before.
 * @param {AbortSignal} signal aborts all of them
 * @returns {() => AbortSignal}
 */
export function newest(signal) {
  /** @type {AbortController|null} */ let asking = null;
  return () => {
    asking?.abort();
    asking = new AbortController();
    return AbortSignal.any([signal, asking.signal]);
  };
}
