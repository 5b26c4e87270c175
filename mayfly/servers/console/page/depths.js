/** How deep queues may become: MAXDEPTH and QDEPTHHI, asked once in a while for the deepest ones. */
import { ask } from './api.js';
import { here } from './session.js';

const KEPT_MS = 60_000;

/** @typedef {{most: number, high: number}} Limits MAXDEPTH, and QDEPTHHI in percent of it */

/**
 * Return a function that tells the limits of a queue, undefined until they are known.
 * @param {() => void} learnt called when more is known
 * @param {AbortSignal} signal
 * @returns {(name: string) => Limits|undefined}
 */
export function depthLimits(learnt, signal) {
  /** @type {Map<string, {limits?: Limits, at: number}>} */ const known = new Map();
  return (name) => {
    const found = known.get(name);
    if (!found || performance.now() - found.at > KEPT_MS) {
      known.set(name, { limits: found?.limits, at: performance.now() });
      limitsOf(name, signal).then((limits) => (known.set(name, { limits, at: performance.now() }), learnt()), () => {});
    }
    return found?.limits;
  };
}

/** @param {string} name @param {AbortSignal} signal @returns {Promise<Limits|undefined>} */
async function limitsOf(name, signal) {
  // A list is empty where a queue is gone meanwhile.
  const { definitions } = await ask('GET', here('definitions', 'qlocal'), { query: { name, limit: 1 }, signal });
  const [found] = definitions;
  return found && { most: found.attributes.maxdepth, high: found.attributes.qdepthhi };
}
