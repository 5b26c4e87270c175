/** Messages that could not be delivered: why, since when, and their way back. */
import { ask } from '../api.js';
import { fill, h } from '../dom.js';
import { bytes, count, counted, duration, id, moment } from '../format.js';
import { watch } from '../live.js';
import { openMessage, redrive, remove, transfer } from '../message_actions.js';
import { newest } from '../newest.js';
import { fail } from '../notices.js';
import { to } from '../router.js';
import { roleButton, whyNot } from '../roles.js';
import { here } from '../session.js';
import { dataTable } from '../table.js';

const MOST = 1_000;

const COLUMNS = [
  { key: 'reason', label: 'Reason', value: (letter) => letter.reason_name ?? '', cell: (letter) => (letter.reason === null ? h('span', { class: 'quiet' }, 'no header') : h('span', { title: letter.reason_text }, `${letter.reason} ${letter.reason_name ?? ''}`)) },
  { key: 'queue', label: 'Meant for', value: (letter) => letter.queue ?? '', cell: (letter) => (letter.queue ? h('a', { href: to(['queue', letter.queue]) }, letter.queue) : '') },
  { key: 'since', label: 'Since', value: (letter) => letter.since_ms, cell: (letter) => (letter.since_ms === null ? '' : moment(letter.since_ms)) },
  { key: 'age', label: 'For', number: true, value: (letter) => letter.age_ms, cell: (letter) => (letter.age_ms === null ? '' : duration(letter.age_ms)) },
  { key: 'expires', label: 'Expires in', number: true, value: (letter) => letter.remaining_ms, cell: (letter) => (letter.remaining_ms === null ? h('span', { class: 'quiet' }, 'never') : duration(letter.remaining_ms)) },
  { key: 'id', label: 'MsgId', value: (letter) => letter.msg_id, cell: (letter) => id(letter.msg_id) },
  { key: 'bytes', label: 'Size', number: true, value: (letter) => letter.body_bytes, cell: (letter) => bytes(letter.body_bytes) },
];

/** @param {HTMLElement} main @param {{query: URLSearchParams, signal: AbortSignal}} place */
export async function show(main, { signal }) {
  const told = h('span', { class: 'quiet', role: 'status' });
  const reason = choice('Reason');
  const queue = choice('Queue');
  const table = dataTable({
    label: 'Dead letters', columns: COLUMNS, key: (letter) => letter.place, fills: true, sort: '', empty: 'No dead letters.', keeps: 'dead letters',
    open: (letter) => openMessage(name, letter.place), chooses: sayScope,
  });
  const scope = h('span', { class: 'quiet' });
  const button = roleButton('operate', { class: 'main', onclick: () => redriveThem() }, 'Redrive…');
  const others = [
    roleButton('operate', { onclick: () => transfer('move', name, chosen(), done) }, 'Move…'),
    roleButton('operate', { class: 'destroys', onclick: () => remove(name, chosen(), done) }, 'Delete…'),
  ];
  main.append(
    h('div', { class: 'page-head' }, h('h1', {}, 'Dead letters'), told, h('div', { class: 'tools' }, reason, queue)),
    h('div', { class: 'tools' }, button, others, scope), table.element,
  );
  /** @type {any[]} */ let letters = [];
  let name = '';
  const nextSignal = newest(signal);

  const wanted = () => letters.filter((letter) => (!reason.value || String(letter.reason) === reason.value) && (!queue.value || letter.queue === queue.value));
  function draw() {
    const found = wanted();
    table.set(found);
    sayScope();
  }

  function sayScope() {
    const [found, picked] = [wanted().length, table.chosen().length];
    button.disabled = Boolean(whyNot('operate')) || !found;
    for (const each of others) each.disabled = Boolean(whyNot('operate')) || !picked;
    fill(scope, whyNot('operate') ?? (picked ? `${counted(picked, 'letter')} chosen.` : found ? `${counted(found, 'letter')} to the queues they were meant for.` : ''));
  }

  async function load() {
    const found = await ask('GET', here('dead-letters'), { query: { limit: MOST }, signal: nextSignal() });
    name = found.queue;
    letters = found.letters;
    fill(told, `${letters.length === MOST ? `first ${count(MOST)}` : count(letters.length)} on ${name}`);
    offer(reason, letters.filter((letter) => letter.reason !== null).map((letter) => [String(letter.reason), `${letter.reason} ${letter.reason_name ?? ''}`]));
    offer(queue, letters.filter((letter) => letter.queue).map((letter) => [letter.queue, letter.queue]));
    draw();
  }

  const chosen = () => table.chosen();
  const done = () => load().catch(fail);

  function redriveThem() {
    const found = chosen().length ? chosen() : wanted();
    const targets = found.map((letter) => letter.queue ?? 'no queue');
    const places = chosen().map(({ place }) => place);
    const where = places.length ? '' : [queue.value && `DESTQ('${queue.value}')`, reason.value && `REASON(${reason.value})`].filter(Boolean).join(' ');
    return redrive({ queue: name, places, where, targets }, done);
  }

  for (const each of [reason, queue]) each.addEventListener('change', draw);
  let depth = -1;
  watch((snapshot) => {
    if (depth !== snapshot.dead_letters && name) load().catch(fail);
    depth = snapshot.dead_letters;
  }, signal);
  await load();
}

/** @param {string} label */
const choice = (label) => /** @type {HTMLSelectElement} */ (h('select', { 'aria-label': label }, h('option', { value: '' }, `${label}: all`)));

/** @param {HTMLSelectElement} select @param {[string, string][]} found */
function offer(select, found) {
  const before = select.value;
  const known = new Map(found);
  select.replaceChildren(select.options[0], ...[...known].sort().map(([value, label]) => h('option', { value, selected: value === before }, label)));
}
