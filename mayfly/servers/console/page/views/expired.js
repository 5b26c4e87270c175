/** Messages that have expired: those still there, and the latest that were found. */
import { ask } from '../api.js';
import { fill, h } from '../dom.js';
import { count, counted, moment } from '../format.js';
import { livesTable } from '../lives.js';
import { refreshing } from '../refresh.js';
import { go } from '../router.js';
import { here } from '../session.js';
import { dataTable } from '../table.js';

const MOST = 500;

/** @param {HTMLElement} main @param {{signal: AbortSignal}} place */
export async function show(main, { signal }) {
  const told = h('span', { class: 'quiet', role: 'status' });
  const present = dataTable({
    label: 'Expired, still there', sort: '-count', key: (one) => one.queue, open: (one) => go(['queue', one.queue]), empty: 'No expired message is on a queue.',
    columns: [
      { key: 'queue', label: 'Queue', value: (one) => one.queue },
      { key: 'count', label: 'Messages', number: true, value: (one) => one.message_count, cell: (one) => count(one.message_count) },
      { key: 'oldest', label: 'First deadline', value: (one) => one.oldest_deadline_ms, cell: (one) => moment(one.oldest_deadline_ms, one.now_ms) },
    ],
  });
  const latest = livesTable({ label: 'Latest expired', empty: 'No message has expired yet, as far as the ledger goes back.', fills: true, without: 'outcome' });
  main.append(
    h('div', { class: 'page-head' }, h('h1', {}, 'Expired'), told),
    h('h2', {}, 'Not found yet by a get, browse or scan'), present.element,
    h('h2', {}, 'Found and discarded'), latest.element,
  );
  await refreshing(async () => {
    const found = await ask('GET', here('expired'), { query: { limit: MOST }, signal });
    const total = found.present.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + one.message_count, 0);
    fill(told, `${counted(total, 'message')} still there, the latest ${count(found.latest.length)} discarded`);
    present.set(found.present.map((/** @type {any} */ one) => ({ ...one, now_ms: found.now_ms })));
    latest.set(found.latest);
  }, signal);
}
