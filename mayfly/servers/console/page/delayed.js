/** Delayed messages counted over time. */
import { ask } from './api.js';
import { here } from './session.js';

/** @typedef {import('./timeline.js').Range} Range @typedef {import('./timeline.js').Steps} Steps */

const HOUR = 3_600_000;
/** No delivery time is later: the year 2109. */
const LATEST = 4_398_046_511_103;
const STEPS = 500;
const MARGIN = 0.04;
const PAGE = 1_000;

/**
 * Counts of delayed messages by steps of a range.
 * @param {Record<string, any>} filter @param {Range} range @param {number} steps @param {AbortSignal} signal
 * @returns {Promise<Steps>}
 */
export async function countsOf(filter, range, steps, signal) {
  const counts = new Array(steps).fill(0);
  const length = (range.before_ms - range.from_ms) / steps;
  let after = null;
  do {
    const query = { ...filter, due_from_ms: range.from_ms, due_before_ms: range.before_ms, limit: PAGE, after };
    const page = await ask('GET', here('schedule'), { query, signal });
    for (const { deliver_at_ms } of page.messages) counts[Math.floor((deliver_at_ms - range.from_ms) / length)] += 1;
    after = page.next;
  } while (after !== null);
  return { ...range, counts };
}

/**
 * The range in which messages are due: from now, or the first that is late, to the last one.
 * @param {Record<string, any>} filter @param {number} now_ms @param {AbortSignal} signal
 * @returns {Promise<Range>}
 */
export async function extentOf(filter, now_ms, signal) {
  const [first] = (await ask('GET', here('schedule'), { query: { ...filter, limit: 1 }, signal })).messages;
  if (!first) return { from_ms: now_ms, before_ms: now_ms + HOUR };
  const from_ms = Math.min(now_ms, first.deliver_at_ms);
  let before_ms = LATEST;
  let share = 0;
  while (share < 0.5 && before_ms - from_ms > STEPS) {
    const { counts } = await countsOf(filter, { from_ms, before_ms }, STEPS, signal);
    const last = counts.findLastIndex((each) => each > 0) + 1;
    share = last / STEPS;
    before_ms = Math.ceil(from_ms + share * (before_ms - from_ms));
  }
  const margin = Math.max(1_000, Math.round((before_ms - from_ms) * MARGIN));
  return { from_ms: from_ms - margin, before_ms: before_ms + margin };
}
