/** Everything at a glance: messages by state, rates, what is due next, and problems. */
import { lineChart } from '../chart.js';
import { ask } from '../api.js';
import { depthLimits } from '../depths.js';
import { factList, fill, h } from '../dom.js';
import { count, counted, duration, moment, rate } from '../format.js';
import { history, now, watch } from '../live.js';
import { replicaPanel, replicaProblems } from '../replica.js';
import { refreshing } from '../refresh.js';
import { go, to } from '../router.js';
import { here } from '../session.js';
import { dataTable } from '../table.js';

/** @typedef {import('../live.js').Snapshot} Snapshot */

const TILES = [
  ['staged', 'waiting', 'Waiting', ['schedule']],
  ['live', 'live', 'Live', ['queues']],
  ['uncommitted', 'uncommitted', 'Uncommitted', ['queues']],
  ['locked', 'locked', 'Locked', ['queues']],
  ['expired_present', 'expired', 'Expired, still there', ['expired']],
  ['dead_letters', 'dead', 'Dead letters', ['deadletters']],
];
const RATES = [
  ['put_per_s', 'Put', 'accent'],
  ['got_per_s', 'Got', 'live'],
  ['expired_per_s', 'Expired', 'expired'],
  ['released_per_s', 'Released', 'waiting'],
];
const MOST = 10;

/** @param {HTMLElement} main @param {{signal: AbortSignal}} place */
export async function show(main, { signal }) {
  const numbers = Object.fromEntries(TILES.map(([figure]) => [figure, h('strong', {}, '·')]));
  const tiles = TILES.map(([figure, kind, title, where]) =>
    h('a', { class: 'tile', href: to(where), 'data-figure': figure }, h('span', { class: `state ${kind}` }, title), numbers[figure]));
  const charts = RATES.map(([name, title, colour]) => chartOf(name, title, colour, signal));
  const due = h('div');
  const replica = replicaPanel();
  const problems = h('div');
  const busy = dataTable({
    label: 'Queues with the most messages', columns: COLUMNS, key: (queue) => queue.name, open: (queue) => go(['queue', queue.name]), empty: 'No queue has messages.',
  });
  main.append(
    h('div', { class: 'page-head' }, h('h1', {}, 'Overview')),
    h('div', { class: 'panel tiles' }, tiles),
    h('div', { class: 'charts' }, charts.map(({ element }) => element)),
    h('div', { class: 'panels' },
      h('section', { class: 'panel', 'aria-labelledby': 'due' }, h('h2', { id: 'due' }, 'Next due'), due),
      h('section', { class: 'panel', 'aria-labelledby': 'problems' }, h('h2', { id: 'problems' }, 'Problems'), problems)),
    replica.element,
    h('h2', {}, 'Most messages'), busy.element,
  );
  const limitsOf = depthLimits(() => last && draw(last), signal);
  /** @type {Snapshot|null} */ let last = null;
  /** @type {HTMLElement[]} */ let down = [];
  /** @param {Snapshot} snapshot */
  function draw(snapshot) {
    last = snapshot;
    const deepest = busiest(snapshot);
    fill(problems, problemList(snapshot, [...down, ...deepest.flatMap((queue) => depthProblem(queue, limitsOf(queue.name)))]));
    busy.set(deepest);
  }
  watch((snapshot) => {
    for (const [figure] of TILES) fill(numbers[figure], count(snapshot[figure]));
    for (const each of charts) each.set();
    fill(due, dueFacts(snapshot));
    draw(snapshot);
  }, signal);
  await refreshing(async () => {
    const [{ channels }, summary] = await Promise.all([ask('GET', here('channels'), { signal }), ask('GET', here('summary'), { signal })]);
    down = [...replicaProblems(summary.replica), ...channels.flatMap(channelProblems)];
    replica.set(summary.replica);
    if (last) draw(last);
  }, signal);
}

/** Channels that retry or have stopped. @param {{name: string, is_stopped: boolean, partners: {partner: string, status: string, failure: string|null}[]}} channel @returns {HTMLElement[]} */
function channelProblems({ name, is_stopped, partners }) {
  const link = h('a', { href: to(['channels', name]) }, `Channel ${name}`);
  const retrying = partners.find(({ status }) => status === 'RETRYING');
  if (is_stopped || partners.some(({ status }) => status === 'STOPPED')) return [h('li', { class: 'bad' }, link, ' is stopped.')];
  return retrying ? [h('li', { class: 'warn' }, link, ` retries${retrying.failure ? `: ${retrying.failure}` : ''}.`)] : [];
}

/** @param {Snapshot} snapshot */
function busiest({ queues }) {
  const size = (/** @type {any} */ { depth, present }) => depth + present.staged;
  return [...queues.values()].filter((queue) => queue.name !== STAGING && size(queue)).sort((a, b) => size(b) - size(a)).slice(0, MOST);
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
      const last = samples.at(-1)?.rates[name];
      fill(value, last === undefined ? '·' : rate(last));
      chart.set([samples.map(({ now_ms }) => now_ms / 1_000), samples.map(({ rates }) => rates[name])], `${title}: ${rate(last ?? 0)} a second`);
    },
  };
}

/** @param {Snapshot} snapshot */
function dueFacts({ next_due_ms, now_ms, is_releasing, release_lateness, expiry_lateness, ledger_first, ledger_last, connections }) {
  const late = next_due_ms !== null && next_due_ms < now_ms - 1_000;
  return factList(
    ['Next delivery', next_due_ms === null ? 'nothing is delayed' : moment(next_due_ms, now_ms)],
    ['Release', is_releasing ? (late ? h('span', { class: 'bad' }, `late by ${duration(now_ms - next_due_ms)}`) : lateness(release_lateness)) : h('span', { class: 'bad' }, 'stopped')],
    ['Expiry', lateness(expiry_lateness)],
    ['Ledger', ledger_last < ledger_first ? 'empty' : `${count(ledger_first)} to ${count(ledger_last)}`],
    ['Connections', count(connections)],
  );
}

/** @param {{count: number, mean_ms: number, at_most_ms: number|null}|null} told */
function lateness(told) {
  if (!told) return 'nothing just now';
  const most = told.at_most_ms === null ? '' : `, at most ${duration(told.at_most_ms)}`;
  return `${count(told.count)}, ${duration(told.mean_ms)} after the moment${most}`;
}

/** A queue that is full, or nearly so, or has more delayed messages than room. @param {any} queue @param {import('../depths.js').Limits|undefined} limits @returns {HTMLElement[]} */
function depthProblem({ name, depth, present }, limits) {
  if (!limits) return [];
  const link = h('a', { href: to(['queue', name]) }, name);
  const staged = present?.staged ?? 0;
  const delayed = h('a', { href: to(['schedule'], { queue: name }) }, counted(staged, 'message'));
  const waiting = staged > limits.most ? [h('li', { class: 'warn' }, delayed, ' delayed for ', link, `, which takes ${count(limits.most)} at most.`)] : [];
  if (depth < (limits.most * limits.high) / 100) return waiting;
  const share = `${Math.floor((100 * depth) / limits.most)} % of its ${counted(limits.most, 'message')} at most`;
  return [depth >= limits.most ? h('li', { class: 'bad' }, link, ` is full: ${share}.`) : h('li', { class: 'warn' }, link, ` has ${share}.`), ...waiting];
}

/** Expired messages that the expiry scan has passed over twice, or that none looks for: others are between two scans. @param {Snapshot} snapshot */
function isForgotten({ now_ms, expired_present, first_expired_ms, expiry_scan_ms }) {
  if (expiry_scan_ms === null) return expired_present > 0;
  return first_expired_ms !== null && now_ms - first_expired_ms > 2 * expiry_scan_ms;
}

/** @param {Snapshot} snapshot @param {HTMLElement[]} full */
function problemList(snapshot, full) {
  const { is_releasing, is_disk_full, dead_letters, expired_present, in_transit } = snapshot;
  const found = [
    !is_releasing && h('li', { class: 'bad' }, 'Release of delayed messages has stopped.'),
    is_disk_full && h('li', { class: 'bad' }, 'The disk is full: puts are refused.'),
    ...full,
    dead_letters && h('li', {}, h('a', { href: to(['deadletters']) }, counted(dead_letters, 'dead letter')), '.'),
    in_transit && h('li', { class: 'quiet' }, `${counted(in_transit, 'message')} on transmission queues.`),
    isForgotten(snapshot) && h('li', { class: 'quiet' }, h('a', { href: to(['expired']) }, counted(expired_present, 'expired message')), ` not discarded yet: no get, browse or scan has found ${expired_present === 1 ? 'it' : 'them'}.`),
  ].filter(Boolean);
  return found.length ? h('ul', { class: 'plain' }, found) : h('p', { class: 'good' }, 'None.');
}

const STAGING = 'SYSTEM.DDELAY.LOCAL.QUEUE';
const number = (/** @type {string} */ key, /** @type {string} */ label, /** @type {(queue: any) => number} */ value) =>
  ({ key, label, number: true, value, cell: (/** @type {any} */ queue) => count(value(queue)) });
const COLUMNS = [
  { key: 'name', label: 'Queue', value: (queue) => queue.name },
  number('depth', 'Depth', (queue) => queue.depth),
  number('staged', 'Waiting', (queue) => queue.present.staged),
  number('live', 'Live', (queue) => queue.present.live),
  number('locked', 'Locked', (queue) => queue.present.locked),
  { key: 'oldest', label: 'Oldest', number: true, value: (queue) => queue.oldest_put_ms, cell: (queue) => (queue.oldest_put_ms === null ? '' : duration(now() - queue.oldest_put_ms)) },
];
