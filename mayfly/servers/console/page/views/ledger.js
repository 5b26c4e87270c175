/** Lives that have ended: found by queue, outcome, time and id; counted by queue and outcome. */
import { ask } from '../api.js';
import { fill, h } from '../dom.js';
import { count, counted, state, stateWord } from '../format.js';
import { now } from '../live.js';
import { livesTable } from '../lives.js';
import { newest } from '../newest.js';
import { fail } from '../notices.js';
import { keep } from '../router.js';
import { here } from '../session.js';
import { dataTable } from '../table.js';

const PAGE = 200;
const OUTCOMES = ['got', 'expired', 'dead_lettered', 'discarded', 'transmitted', 'released', 'cleared', 'cancelled', 'lost_at_restart'];
const RANGES = { 'at any time': null, 'in the last minute': 60_000, 'in the last hour': 3_600_000, 'in the last day': 86_400_000, 'in the last 30 days': 2_592_000_000 };

/** @param {HTMLElement} main @param {{query: URLSearchParams, signal: AbortSignal}} place */
export async function show(main, { query, signal }) {
  const text = (/** @type {string} */ name, /** @type {string} */ label) => /** @type {HTMLInputElement} */ (h('input', { type: 'search', value: query.get(name) ?? '', 'aria-label': label, placeholder: label, onchange: begin }));
  const choice = (/** @type {string} */ name, /** @type {string} */ label, /** @type {[string, string][]} */ options) =>
    /** @type {HTMLSelectElement} */ (h('select', { 'aria-label': label, onchange: begin }, options.map(([value, shown]) => h('option', { value, selected: value === query.get(name) }, shown))));
  const queue = text('queue', 'Queue');
  const id = text('id', 'MsgId or CorrelId');
  const outcome = choice('outcome', 'Outcome', [['', 'all outcomes'], ...OUTCOMES.map((word) => /** @type {[string, string]} */ ([word, stateWord(word)]))]);
  const range = choice('range', 'Ended', Object.keys(RANGES).map((word) => [word, word]));
  const told = h('span', { class: 'quiet', role: 'status' });
  const more = h('button', { type: 'button', onclick: () => fetchPage(nextSignal()).catch(fail) }, 'Show more');
  const sums = dataTable({
    label: 'Lives by queue and outcome', sort: '-count', key: (one) => `${one.queue} ${one.outcome}`, empty: 'No life has ended so.',
    open: (one) => ((queue.value = one.queue), (outcome.value = one.outcome), begin()),
    columns: [
      { key: 'queue', label: 'Queue', value: (one) => one.queue },
      { key: 'outcome', label: 'Outcome', value: (one) => one.outcome, cell: (one) => state(one.outcome) },
      { key: 'count', label: 'Lives', number: true, value: (one) => one.count, cell: (one) => count(one.count) },
      { key: 'share', label: 'Share', number: true, value: (one) => one.share, cell: (one) => `${(100 * one.share).toFixed(1)} %` },
    ],
  });
  const lives = livesTable({ label: 'Lives', empty: 'No life has ended so, as far as this page looked.', fills: true });
  /** @type {any[]} */ let found = [];
  /** @type {string|null} */ let next = null;
  let span = {};
  const nextSignal = newest(signal);
  main.append(
    h('div', { class: 'page-head' }, h('h1', {}, 'Ledger'), told, h('div', { class: 'tools' }, queue, outcome, range, id)),
    h('div', { class: 'sums' }, sums.element), h('div', { class: 'tools' }, h('h2', {}, 'Lives, the latest first'), more), lives.element,
  );

  function begin() {
    const back_ms = RANGES[range.value];
    span = { queue: queue.value.trim(), outcome: outcome.value, from_ms: back_ms ? Math.max(0, Math.floor(now() - back_ms)) : null };
    keep(['ledger'], { queue: queue.value.trim(), outcome: outcome.value, range: back_ms ? range.value : '', id: id.value.trim() });
    [found, next] = [[], null];
    const mine = nextSignal();
    return Promise.all([summary(mine), fetchPage(mine)]).catch(fail);
  }

  /** @param {AbortSignal} asking */
  async function summary(asking) {
    const { counts, others, first_position, last_position, is_cut } = await ask('GET', here('ledger', 'summary'), { query: span, signal: asking });
    const total = counts.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + one.count, others);
    fill(told, `${counted(total, 'life').replace('lifes', 'lives')} in rows ${count(first_position)} to ${count(last_position)}${is_cut ? ', older ones are not counted' : ''}`);
    sums.set(counts.map((/** @type {any} */ one) => ({ ...one, share: one.count / total })));
  }

  /** @param {AbortSignal} asking */
  async function fetchPage(asking) {
    const page = await ask('GET', here('ledger'), { query: { ...span, id: id.value.trim(), limit: PAGE, after: next }, signal: asking });
    found = [...found, ...page.lives];
    next = page.next;
    more.hidden = next === null;
    lives.set(found);
  }

  await begin();
}
