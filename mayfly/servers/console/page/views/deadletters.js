/** Messages that could not be delivered: why, since when, and their way back. */
import { ask } from '../api.js';
import { confirm } from '../dialog.js';
import { fill, h } from '../dom.js';
import { bytes, count, counted, duration, id, moment } from '../format.js';
import { watch } from '../live.js';
import { newest } from '../newest.js';
import { fail, say } from '../notices.js';
import { go, to } from '../router.js';
import { roleButton, whyNot } from '../roles.js';
import { here } from '../session.js';
import { dataTable } from '../table.js';

const MOST = 1_000;
const OUTCOMES = { redriven: 'put to their queues', left: 'stayed', failed: 'refused again', discarded: 'discarded', gone: 'gone meanwhile', without_header: 'without a header', ignored: 'ignored', forwarded: 'forwarded' };

const COLUMNS = [
  { key: 'reason', label: 'Reason', value: (letter) => letter.reason_name ?? '', cell: (letter) => (letter.reason === null ? h('span', { class: 'quiet' }, 'no header') : `${letter.reason} ${letter.reason_name ?? ''}`) },
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
    label: 'Dead letters', columns: COLUMNS, key: (letter) => letter.place, fills: true, sort: '', empty: 'No dead letters.', open: (letter) => go(['trace', letter.msg_id]),
  });
  const scope = h('span', { class: 'quiet' });
  const button = roleButton('operate', { class: 'main', onclick: () => redrive().catch(fail) }, 'Redrive…');
  main.append(
    h('div', { class: 'page-head' }, h('h1', {}, 'Dead letters'), told, h('div', { class: 'tools' }, reason, queue)),
    h('div', { class: 'tools' }, button, scope), table.element,
  );
  /** @type {any[]} */ let letters = [];
  let name = '';
  const nextSignal = newest(signal);

  const wanted = () => letters.filter((letter) => (!reason.value || String(letter.reason) === reason.value) && (!queue.value || letter.queue === queue.value));
  function draw() {
    const found = wanted();
    table.set(found);
    button.disabled = Boolean(whyNot('operate')) || !found.length;
    fill(scope, whyNot('operate') ?? (found.length ? `${counted(found.length, 'letter')} to the queues they were meant for.` : ''));
  }

  async function load() {
    const found = await ask('GET', here('dead-letters'), { query: { limit: MOST }, signal: nextSignal() });
    name = found.queue;
    letters = found.letters.map((letter, place) => ({ ...letter, place: String(place) }));
    fill(told, `${letters.length === MOST ? `first ${count(MOST)}` : count(letters.length)} on ${name}`);
    offer(reason, letters.filter((letter) => letter.reason !== null).map((letter) => [String(letter.reason), `${letter.reason} ${letter.reason_name ?? ''}`]));
    offer(queue, letters.filter((letter) => letter.queue).map((letter) => [letter.queue, letter.queue]));
    draw();
  }

  async function redrive() {
    const found = wanted();
    const conditions = [queue.value && `DESTQ('${queue.value}')`, reason.value && `REASON(${reason.value})`].filter(Boolean).join(' ');
    const targets = [...new Set(found.map((letter) => letter.queue ?? 'no queue'))];
    const body = { action: 'redrive', where: conditions, queue: name };
    const foreseen = await ask('POST', here('dead-letters'), { body: { ...body, dry_run: true } });
    const what = counted(foreseen.redriven, 'letter');
    const effect = [
      h('p', {}, `Redrive puts ${what} back to ${targets.slice(0, 4).join(', ')}${targets.length > 4 ? ` and ${targets.length - 4} other queues` : ''}, once. A letter whose queue refuses it entries here.`),
      h('p', { class: 'quiet' }, conditions ? `Letters with ${conditions}.` : 'All letters.'),
    ];
    if (!(await confirm({ title: `Redrive ${what}?`, effect, action: `Redrive ${what}` }))) return;
    const summary = await ask('POST', here('dead-letters'), { body });
    const parts = Object.entries(OUTCOMES).filter(([word]) => summary[word]).map(([word, text]) => `${count(summary[word])} ${text}`);
    const failures = Object.entries(summary.failures).map(([why, times]) => `${why} ${count(/** @type {number} */ (times))} times`);
    say(`${parts.join(', ') || 'Nothing was there'}${failures.length ? ` (${failures.join(', ')})` : ''}.`);
    await load();
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
