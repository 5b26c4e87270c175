/** Delayed messages: what is due when, and changes of it. */
import { ask } from '../api.js';
import { countsOf, extentOf } from '../delayed.js';
import { fill, h } from '../dom.js';
import { bytes, count, counted, duration, id, moment } from '../format.js';
import { now, watch } from '../live.js';
import { newest } from '../newest.js';
import { fail } from '../notices.js';
import { go, keep } from '../router.js';
import { roleButton, whyNot } from '../roles.js';
import { change } from '../schedule_actions.js';
import { here } from '../session.js';
import { dataTable } from '../table.js';
import { timeline } from '../timeline.js';

const PAGE = 200;
const ACTIONS = /** @type {const} */ (['release', 'reschedule', 'cancel']);

const COLUMNS = [
  { key: 'due', label: 'Due', value: (message) => message.deliver_at_ms, cell: (message) => moment(message.deliver_at_ms) },
  { key: 'in', label: 'In', number: true, value: (message) => message.deliver_at_ms, cell: (message) => duration(message.deliver_at_ms - now()) },
  { key: 'queue', label: 'Queue', value: (message) => message.target },
  { key: 'sender', label: 'Sender', value: (message) => message.user_identifier },
  { key: 'id', label: 'MsgId', value: (message) => message.msg_id, cell: (message) => id(message.msg_id) },
  { key: 'bytes', label: 'Size', number: true, value: (message) => message.body_bytes, cell: (message) => bytes(message.body_bytes) },
  { key: 'put', label: 'Put', value: (message) => message.put_ms, cell: (message) => moment(message.put_ms) },
  { key: 'expires', label: 'Lives', number: true, title: 'From the delivery time to the deadline', value: (message) => message.expire_at_ms, cell: (message) => (message.expire_at_ms === null ? h('span', { class: 'quiet' }, 'for ever') : duration(message.expire_at_ms - message.deliver_at_ms)) },
];

/** @param {HTMLElement} main @param {{query: URLSearchParams, signal: AbortSignal}} place */
export async function show(main, { query, signal }) {
  const input = (/** @type {string} */ name, /** @type {string} */ label) =>
    /** @type {HTMLInputElement} */ (h('input', { type: 'search', value: query.get(name) ?? '', 'aria-label': label, placeholder: label, autocomplete: 'off', oninput: refilter }));
  const queue = input('queue', 'Queue');
  const sender = input('sender', 'Sender');
  const find = input('find', 'Part of MsgId or sender, or property=value');
  const told = h('span', { class: 'quiet', role: 'status' });
  const scope = h('span', { class: 'quiet' });
  const more = h('button', { type: 'button', onclick: () => fetchPage().catch(fail) }, 'Show more');
  const table = dataTable({
    label: 'Delayed messages', columns: COLUMNS, key: (message) => message.position, fills: true, empty: 'Nothing is due here.', keeps: 'schedule',
    open: (message) => go(['trace', message.msg_id]), chooses: sayScope,
  });
  const buttons = ACTIONS.map((action) => roleButton('operate', { class: action === 'cancel' ? 'destroys' : null, onclick: () => act(action) }, `${action[0].toUpperCase()}${action.slice(1)}…`));
  /** @type {any[]} */ let messages = [];
  /** @type {string|null} */ let next = null;
  let range = { from_ms: 0, before_ms: 0 };
  let total = 0;
  const nextSignal = newest(signal);

  const filter = () => ({ ...(queue.value && { queue: queue.value.trim() }), ...(sender.value && { sender: sender.value.trim() }) });
  const span = () => ({ due_from_ms: range.from_ms, due_before_ms: range.before_ms });
  /** A property and its value, or null while there is none. */
  const property = () => find.value.trim().match(/^([^=\s]+)=(.*)$/);
  const where = () => {
    const found = property();
    return { ...filter(), ...(found && { properties: { [found[1]]: found[2] } }), ...span() };
  };
  const asked = () => {
    const found = property();
    return { ...filter(), ...span(), ...(found ? { property: found[1], value: found[2] } : { find: find.value.trim() }) };
  };
  /** Whether the timeline counts other messages than the list has. */
  const isNarrowed = () => Boolean(sender.value || find.value.trim());

  async function fetchPage() {
    const found = await ask('GET', here('schedule'), { query: { ...asked(), limit: PAGE, after: next }, signal: nextSignal() });
    messages = next === null ? found.messages : [...messages, ...found.messages];
    next = found.next;
    more.hidden = next === null;
    table.set(messages);
    // The timeline does not know senders: with one, only a page that is whole says how many there are.
    if (next === null) total = messages.length;
    fill(told, next === null ? counted(total, 'message') : `first ${count(messages.length)} of ${isNarrowed() ? 'more' : count(total)} messages`);
    sayScope();
  }

  function sayScope() {
    const chosen = table.chosen().length;
    // A part of an id or sender is no filter of a change: it takes the messages of the list.
    const isPart = Boolean(find.value.trim()) && !property();
    for (const button of buttons) button.disabled = Boolean(whyNot('operate')) || (!chosen && isPart && (next !== null || !messages.length));
    fill(scope, whyNot('operate') ?? (chosen ? `${counted(chosen, 'message')} chosen:` : isPart && next !== null ? 'Choose messages:' : isNarrowed() && next !== null ? 'All that the filter finds:' : `All ${count(total)} shown above:`));
  }

  function refilter() {
    keep(['schedule'], { queue: queue.value.trim(), sender: sender.value.trim(), find: find.value.trim() });
    line.ask();
  }

  /** @param {'cancel'|'release'|'reschedule'} action */
  function act(action) {
    const chosen = table.chosen();
    const isPart = Boolean(find.value.trim()) && !property();
    change(action, chosen.length ? { messages: chosen } : isPart ? { messages } : { where: where() }, { now_ms: now(), done: line.ask });
  }

  const line = timeline({
    label: 'Due', range: await extentOf(signal), all: () => extentOf(signal), now, failed: fail, signal,
    load: (wanted, steps, asking) => countsOf(queue.value.trim(), wanted, steps, asking),
    moved(found, messagesFound) {
      [range, total, next] = [found, messagesFound, null];
      fetchPage().catch(fail);
    },
  });
  main.append(
    h('div', { class: 'page-head' }, h('h1', {}, 'Schedule'), told, h('div', { class: 'tools' }, queue, sender, find)),
    h('section', { class: 'panel', 'aria-label': 'Timeline' }, line.element),
    h('div', { class: 'tools' }, scope, buttons, more),
    table.element,
  );
  let staged = -1;
  watch((snapshot) => {
    // Messages come and go: what is shown is asked for again.
    if (staged !== -1 && snapshot.staged !== staged) line.ask();
    staged = snapshot.staged;
  }, signal);
}
