/** The messages of one queue, in every state: found, chosen, and changed. */
import { ask } from '../api.js';
import { fill, h } from '../dom.js';
import { bytes, count, counted, duration, id, moment, state, stateWord } from '../format.js';
import { now, watch } from '../live.js';
import { openMessage, remove, transfer } from '../message_actions.js';
import { newest } from '../newest.js';
import { fail } from '../notices.js';
import { roleButton, whyNot } from '../roles.js';
import { keep, to } from '../router.js';
import { change } from '../schedule_actions.js';
import { here } from '../session.js';
import { hear } from '../signals.js';
import { dataTable } from '../table.js';

const PAGE = 200;
/** Pages that are asked for one after the other while nothing is found. */
const MOST_EMPTY = 50;
/** Below this width in px the filter is folded. */
const NARROW = 600;
const STATES = ['live', 'staged', 'uncommitted', 'locked', 'expired_present', 'claimed'];
const AGES = { 'any age': 0, 'older than 1 min': 60_000, 'older than 1 h': 3_600_000, 'older than 1 d': 86_400_000, 'older than 7 d': 604_800_000 };

const more = (/** @type {any} */ message) => [message.reason && `${message.reason} ${message.reason_name}`, message.holder, message.hindrance].filter(Boolean).join('; ');
const COLUMNS = [
  { key: 'state', label: 'State', value: (message) => message.state, cell: (message) => state(message.state) },
  { key: 'put', label: 'Put', value: (message) => message.put_ms, cell: (message) => moment(message.put_ms) },
  { key: 'age', label: 'Age', number: true, value: (message) => message.age_ms, cell: (message) => duration(message.age_ms) },
  { key: 'due', label: 'Due', value: (message) => message.deliver_at_ms, cell: (message) => (message.state === 'staged' && message.target ? moment(message.deliver_at_ms) : '') },
  { key: 'expires', label: 'Expires in', number: true, value: (message) => message.remaining_ms, cell: (message) => (message.remaining_ms === null ? h('span', { class: 'quiet' }, 'never') : message.remaining_ms ? duration(message.remaining_ms) : 'expired') },
  { key: 'sender', label: 'Sender', value: (message) => message.user_identifier },
  { key: 'id', label: 'MsgId', value: (message) => message.msg_id, cell: (message) => id(message.msg_id) },
  { key: 'bytes', label: 'Size', number: true, value: (message) => message.body_bytes, cell: (message) => bytes(message.body_bytes) },
  { key: 'priority', label: 'Priority', number: true, value: (message) => message.priority },
  { key: 'backouts', label: 'Backouts', number: true, value: (message) => message.backout_count },
  { key: 'more', label: 'More', value: more, cell: (message) => h('span', { title: more(message) }, more(message)) },
];

/** @param {HTMLElement} main @param {{args: string[], query: URLSearchParams, signal: AbortSignal}} place */
export async function show(main, { args: [queue], query, signal }) {
  const input = (/** @type {string} */ name, /** @type {string} */ label) =>
    /** @type {HTMLInputElement} */ (h('input', { type: 'search', name, value: query.get(name) ?? '', 'aria-label': label, placeholder: label, autocomplete: 'off', spellcheck: 'false' }));
  const select = (/** @type {string} */ name, /** @type {string} */ label, /** @type {[string, string][]} */ options) =>
    h('select', { name, 'aria-label': label, onchange: () => refilter() }, options.map(([value, text]) => h('option', { value, selected: value === (query.get(name) ?? '') }, text)));
  const form = /** @type {HTMLFormElement} */ (h('form', { class: 'tools', role: 'search', 'aria-label': 'Filter', onsubmit: (/** @type {Event} */ event) => (event.preventDefault(), refilter()) },
    select('state', 'State', [['', 'any state'], ...STATES.map((word) => /** @type {[string, string]} */ ([word, stateWord(word)]))]),
    select('age', 'Age', Object.keys(AGES).map((word) => [AGES[word] ? word : '', word])),
    input('id', 'MsgId or CorrelId'), input('sender', 'Sender'), input('property', 'Property'), input('value', 'Value of it'), input('text', 'Text in it'),
    h('button', { type: 'submit' }, 'Find')));
  const told = h('span', { class: 'quiet', role: 'status' });
  const notes = h('p', { class: 'quiet', hidden: true });
  const next = h('button', { type: 'button', hidden: true, onclick: () => load(false).catch(fail) }, 'Show more');
  const table = dataTable({
    label: 'Messages', columns: COLUMNS, key: (message) => message.place, fills: true, empty: 'No message is here.', keeps: `messages ${queue}`,
    open: (message) => openMessage(queue, message.place), chooses: sayScope,
  });
  const scope = h('span', { class: 'quiet' });
  const ACTS = {
    Release: () => change('release', { messages: delayed() }, { now_ms: now(), done }),
    Reschedule: () => change('reschedule', { messages: delayed() }, { now_ms: now(), done }),
    Cancel: () => change('cancel', { messages: delayed() }, { now_ms: now(), done }),
    Move: () => transfer('move', queue, table.chosen(), done),
    Copy: () => transfer('copy', queue, table.chosen(), done),
    Delete: () => remove(queue, table.chosen(), done),
  };
  const ON_DELAYED = ['Release', 'Reschedule', 'Cancel'];
  const buttons = Object.entries(ACTS).map(([word, act]) => roleButton('operate', { class: word === 'Delete' || word === 'Cancel' ? 'destroys' : null, 'data-act': word, onclick: act }, `${word}…`));
  /** @type {any[]} */ let messages = [];
  /** @type {string|null} */ let after = null;
  const nextSignal = newest(signal);
  const delayed = () => table.chosen().filter(({ target, state: word }) => target && word === 'staged');
  const filter = () => /** @type {Record<string, string>} */ (Object.fromEntries([...new FormData(form)].filter(([, value]) => String(value).trim())));
  const done = () => load(true).catch(fail);

  function sayScope() {
    const chosen = table.chosen().length;
    for (const button of buttons) {
      const found = ON_DELAYED.includes(button.dataset.act ?? '') ? delayed().length : chosen - delayed().length;
      button.disabled = Boolean(whyNot('operate')) || !found;
    }
    fill(scope, whyNot('operate') ?? (chosen ? `${counted(chosen, 'message')} chosen:` : 'Choose messages to change them:'));
  }

  function refilter() {
    keep(['messages', queue], filter());
    load(true).catch(fail);
  }

  /** @param {boolean} isAnew */
  async function load(isAnew) {
    const { age, ...where } = filter();
    const asked = { ...where, put_before_ms: age ? Math.floor(now() - AGES[age]) : null, limit: PAGE };
    const mine = nextSignal();
    let found = isAnew ? [] : messages;
    let from = isAnew ? null : after;
    const before = found.length;
    let isOver = false;
    for (let looks = 0; !isOver && looks < MOST_EMPTY && found.length - before < PAGE; looks += 1) {
      const page = await ask('GET', here('queues', queue, 'messages'), { query: { ...asked, after: from }, signal: mine });
      found = [...found, ...page.messages];
      from = page.next;
      isOver = from === null;
      fill(notes, page.notes.join(' '));
      notes.hidden = !page.notes.length;
    }
    [messages, after] = [found, from];
    next.hidden = after === null;
    fill(told, after === null ? counted(messages.length, 'message') : `first ${count(messages.length)} messages`);
    table.set(messages);
    sayScope();
  }

  main.append(
    h('div', { class: 'page-head' }, h('h1', {}, `Messages of ${queue}`), told,
      h('div', { class: 'tools' }, h('a', { href: to(['queue', queue]) }, 'The queue'), h('a', { class: 'button', href: to(['put', queue]) }, 'Put a message'))),
    h('details', { open: innerWidth > NARROW || query.size > 0 }, h('summary', {}, 'Filter'), form),
    h('div', { class: 'tools' }, scope, buttons, next), notes, table.element,
  );
  await load(true);
  if (document.activeElement === main) table.focus();
  // A change of one message may be undone while this page is seen.
  hear('messages', done, signal);
  let figures = '';
  watch((snapshot) => {
    const found = snapshot.queues.get(queue);
    const seen = JSON.stringify([found?.depth, found?.present, found?.puts]);
    const { property, text } = filter();
    // A search in contents is audited, so it is not repeated; further pages would be lost.
    const isStill = Boolean(property || text) || messages.length > PAGE;
    if (figures && seen !== figures && !isStill) done();
    figures = seen;
  }, signal);
}
