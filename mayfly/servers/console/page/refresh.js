/** What no event tells is asked again while the page is seen. */
import { fail } from './notices.js';

const PERIOD_MS = 3_000;

/**
 * Load now, and again every few seconds, one after the other.
 * @param {() => Promise<any>} load its first failure is the caller's
 * @param {AbortSignal} signal
 * @returns {Promise<() => Promise<void>>} a function that loads at once
 */
export async function refreshing(load, signal) {
  const again = () => load().catch(fail);
  await load();
  const timer = setInterval(() => document.hidden || again(), PERIOD_MS);
  signal.addEventListener('abort', () => clearInterval(timer));
  return again;
}
