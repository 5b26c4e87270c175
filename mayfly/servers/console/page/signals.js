/** What happens to the page as a whole: "lost", "found", "signedout", "theme", "manager". */
const bus = new EventTarget();

/** @param {string} name @param {any} [detail] */
export const tell = (name, detail) => bus.dispatchEvent(new CustomEvent(name, { detail }));

/**
 * Listen until a signal is aborted.
 * @param {string} name
 * @param {(detail: any) => void} listener
 * @param {AbortSignal} [signal]
 */
export function hear(name, listener, signal) {
  bus.addEventListener(name, (event) => listener(/** @type {CustomEvent} */ (event).detail), { signal });
}
