/**
 * Other servers of the fleet. Each has its own sign-in: the browser sends each server the cookie of
 * its own login, and a page reads there and changes nothing.
 */
import { ask, Problem, ServerLost } from './api.js';

/** @typedef {{name: string, origin: string}} Server */

/** The other servers that the file of this one names. @param {AbortSignal} signal @returns {Promise<Server[]>} */
export async function otherServers(signal) {
  const { servers } = await ask('GET', '/mayfly/v1/fleet', { signal });
  return Object.entries(servers).map(([name, origin]) => ({ name, origin })).filter(({ origin }) => origin !== location.origin);
}

/**
 * Ask another server, as the user who has signed in there.
 * @param {Server} server
 * @param {string} path
 * @param {AbortSignal} signal
 * @returns {Promise<any>} rejected by Problem, ServerLost, or the abort of the signal
 */
export async function askAt({ name, origin }, path, signal) {
  let answer;
  try {
    // Without further headers a browser needs no question before this one.
    answer = await fetch(origin + path, { credentials: 'include', signal });
  } catch (error) {
    if (signal.aborted) throw error;
    throw new ServerLost(`${name} does not answer`, { cause: error });
  }
  const content = await answer.json().catch(() => ({}));
  // A probe answers 503 with the states of its queue managers.
  if (answer.ok || 'queue_managers' in content) return content;
  throw new Problem(answer.status, content.detail ?? `status ${answer.status}`, content);
}

/** The address of a page of a queue manager at another server. @param {Server} server @param {string} page @param {string} manager */
export const pageAt = ({ origin }, page, manager) => `${origin}/console/#/${page}?qmgr=${encodeURIComponent(manager)}`;
