/** Delayed messages counted over time, however many they are. */
import { ask } from './api.js';
import { here } from './session.js';

/** @typedef {import('./timeline.js').Range} Range @typedef {import('./timeline.js').Steps} Steps */

const HOUR = 3_600_000;
const MARGIN = 0.04;
const MOST_STEPS = 2_000;
const path = () => here('schedule', 'timeline');

/**
 * Counts of delayed messages by steps of a range.
 * @param {string} queue only messages for it; "" for all
 * @param {Range} range @param {number} steps @param {AbortSignal} signal
 * @returns {Promise<Steps>}
 */
export async function countsOf(queue, range, steps, signal) {
  const query = { ...range, queue, steps: Math.min(steps, MOST_STEPS) };
  const { from_ms, step_ms, counts } = await ask('GET', path(), { query, signal });
  // The last step may end behind the range.
  return { from_ms, before_ms: from_ms + counts.length * step_ms, counts };
}

/**
 * The range in which messages are due: from now, or the first that is late, to the last one.
 * @param {AbortSignal} signal
 * @returns {Promise<Range>}
 */
export async function extentOf(signal) {
  const { now_ms, first_due_ms, last_due_ms } = await ask('GET', path(), { query: { steps: 1 }, signal });
  const [from_ms, before_ms] = first_due_ms === null ? [now_ms, now_ms + HOUR] : [Math.min(now_ms, first_due_ms), last_due_ms];
  const margin = Math.max(1_000, Math.round((before_ms - from_ms) * MARGIN));
  return { from_ms: Math.max(0, from_ms - margin), before_ms: before_ms + margin };
}
