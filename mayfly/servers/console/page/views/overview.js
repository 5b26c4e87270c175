/** Everything at a glance: messages by state, rates, what is due next, and problems. */
import { ask } from '../api.js';
import { lineChart } from '../chart.js';
import { factList, fill, h } from '../dom.js';
import { count, counted, duration, moment, rate, relative, state } from '../format.js';
import { history, watch } from '../live.js';
import { go, to } from '../router.js';
import { here } from '../session.js';
import { dataTable } from '../table.js';

/** @typedef {import('../live.js').Snapshot} Snapshot */

const TILES = [
  ['staged', 'Waiting', ['queues']],
  ['live', 'Live', ['queues']],
  ['uncommitted', 'Uncommitted', ['queues']],
  ['locked', 'Locked', ['queues']],
  ['expired_present', 'Expired, still there', ['queues']],
  ['dead_lettered', 'Dead letters', ['queues']],
];
const RATES = [['put', 'Put', 'accent'], ['got', 'Got', 'live'], ['expired', 'Expired', 'expired'], ['released', 'Released', 'waiting']];
const DEAD_LETTERS_EVERY = 5;
const STAGING = 'SYSTEM.DDELAY.LOCAL.QUEUE';

/** @param {HTMLElement} main @param {{signal: AbortSignal}} place */
export async function show(main, { signal }) {
  const numbers = Object.fromEntries(TILES.map(([word]) => [word, h('strong', {}, '·')]));
  const tiles = h('div', { class: 'panel tiles' }, TILES.map(([word, title, where]) =>
    h('a', { class: 'tile', href: to(where), 'data-state': word }, state(word, title), numbers[word])));
  const charts = RATES.map(([name, title, colour]) => chartOf(name, title, colour, signal));
  const due = h('div');
  const problems = h('div');
  const busy = dataTable({
    label: 'Busiest queues', columns: COLUMNS, key: (queue) => queue.name, open: (queue) => go(['queue', queue.name]), empty: 'No queue has messages.',
  });
  main.append(
    h('div', { class: 'page-head' }, h('h1', {}, 'Overview')),
    tiles,
    h('div', { class: 'charts' }, charts.map(({ element }) => element)),
    h('div', { class: 'panels' },
      h('section', { class: 'panel', 'aria-labelledby': 'due' }, h('h2', { id: 'due' }, 'Next due'), due),
      h('section', { class: 'panel', 'aria-labelledby': 'problems' }, h('h2', { id: 'problems' }, 'Problems'), problems)),
    h('h2', {}, 'Most messages'), busy.element,
  );
  let dead = { queue: '', count: 0 };
  let turn = 0;
  watch((snapshot) => {
    if (turn++ % DEAD_LETTERS_EVERY === 0) findDead(signal).then((found) => (dead = found), () => {});
    const queues = snapshot.queues.filter(({ name }) => name !== STAGING);
    for (const [word] of TILES) fill(numbers[word], count(word === 'dead_lettered' ? depthOf(snapshot, dead.queue) : sum(queues, word)));
    for (const each of charts) each.set();
    fill(due, dueFacts(snapshot));
    fill(problems, problemList(snapshot, dead.queue));
    busy.set(queues.filter(({ depth, present }) => depth || present?.staged).sort((a, b) => b.depth - a.depth).slice(0, 10));
  }, signal);
}

/** @param {any[]} queues @param {string} word */
const sum = (queues, word) => queues.reduce((total, { present }) => total + (present?.[word] ?? 0), 0);

/** @param {Snapshot} snapshot @param {string} name */
const depthOf = (snapshot, name) => snapshot.queues.find((queue) => queue.name === name)?.depth ?? 0;

/** Which queue is the dead-letter queue? @param {AbortSignal} signal */
async function findDead(signal) {
  const found = await ask('GET', here('dead-letters'), { query: { limit: 1 }, signal });
  return { queue: found.queue, count: found.letters.length };
}

/** @param {string} name @param {string} title @param {string} colour @param {AbortSignal} signal */
function chartOf(name, title, colour, signal) {
  const value = h('strong', {}, '·');
  const chart = lineChart({ label: title, lines: [{ label: title, colour }], format: rate, signal });
  const head = h('div', { class: 'chart-head' }, h('h2', {}, title), h('span', {}, value, h('span', { class: 'quiet' }, ' /s')));
  return {
    element: h('section', { class: 'panel', 'aria-label': title }, head, chart.element),
    set() {
      const samples = history();
      const last = samples.at(-1)?.[name];
      fill(value, last === null || last === undefined ? '·' : rate(last));
      chart.set([samples.map(({ at }) => at / 1_000), samples.map((each) => each[name])], `${title}: ${rate(last ?? 0)} a second`);
    },
  };
}

/** @param {Snapshot} snapshot */
function dueFacts({ next_due_ms, now_ms, is_releasing, ledger_first, ledger_last }) {
  const due = next_due_ms === null ? 'nothing is delayed' : [moment(next_due_ms), h('span', { class: 'quiet' }, ` · ${relative(next_due_ms, now_ms)}`)];
  const late = next_due_ms !== null && next_due_ms < now_ms - 1_000 ? h('span', { class: 'bad' }, duration(now_ms - next_due_ms)) : 'on time';
  return factList(
    ['Next delivery', due],
    ['Release', is_releasing ? late : h('span', { class: 'bad' }, 'stopped')],
    ['Now', moment(now_ms)],
    ['Ledger', ledger_last < ledger_first ? 'empty' : `${count(ledger_first)} to ${count(ledger_last)}`],
  );
}

/** @param {Snapshot} snapshot @param {string} deadQueue */
function problemList(snapshot, deadQueue) {
  const found = [];
  if (!snapshot.is_releasing) found.push(h('li', { class: 'bad' }, 'Release of delayed messages has stopped.'));
  const letters = depthOf(snapshot, deadQueue);
  if (letters) found.push(h('li', {}, h('a', { href: to(['queue', deadQueue]) }, counted(letters, 'dead letter')), ` on ${deadQueue}.`));
  const expired = sum(snapshot.queues, 'expired_present');
  if (expired) found.push(h('li', { class: 'quiet' }, `${counted(expired, 'expired message')} not discarded yet: nobody has met ${expired === 1 ? 'it' : 'them'}.`));
  return found.length ? h('ul', { class: 'plain' }, found) : h('p', { class: 'good' }, 'None.');
}

export const COLUMNS = [
  { key: 'name', label: 'Queue', value: (queue) => queue.name },
  { key: 'depth', label: 'Depth', number: true, value: (queue) => queue.depth, cell: (queue) => count(queue.depth) },
  { key: 'staged', label: 'Waiting', number: true, value: (queue) => queue.present?.staged ?? 0, cell: (queue) => count(queue.present?.staged ?? 0) },
  { key: 'live', label: 'Live', number: true, value: (queue) => queue.present?.live ?? 0, cell: (queue) => count(queue.present?.live ?? 0) },
  { key: 'locked', label: 'Locked', number: true, value: (queue) => queue.present?.locked ?? 0, cell: (queue) => count(queue.present?.locked ?? 0) },
  { key: 'oldest', label: 'Oldest', number: true, value: (queue) => queue.oldest_age_ms, cell: (queue) => (queue.oldest_age_ms === null ? '' : duration(queue.oldest_age_ms)) },
];
