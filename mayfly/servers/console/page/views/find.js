/** Messages on all queues by id, property or text: what the search box leads to. */
import { ask } from '../api.js';
import { fill, h } from '../dom.js';
import { bytes, counted, duration, id, state } from '../format.js';
import { openMessage } from '../message_actions.js';
import { to } from '../router.js';
import { here } from '../session.js';
import { dataTable } from '../table.js';

const MOST_QUEUES = 1_000;
const MOST_OF_QUEUE = 100;
/** Pages that are asked for of one queue. */
const MOST_PAGES = 20;

const COLUMNS = [
  { key: 'queue', label: 'Queue', value: (message) => message.asked, cell: (message) => h('a', { href: to(['messages', message.asked]) }, message.asked) },
  { key: 'state', label: 'State', value: (message) => message.state, cell: (message) => state(message.state) },
  { key: 'age', label: 'Age', number: true, value: (message) => message.age_ms, cell: (message) => duration(message.age_ms) },
  { key: 'sender', label: 'Sender', value: (message) => message.user_identifier },
  { key: 'id', label: 'MsgId', value: (message) => message.msg_id, cell: (message) => id(message.msg_id) },
  { key: 'bytes', label: 'Size', number: true, value: (message) => message.body_bytes, cell: (message) => bytes(message.body_bytes) },
];

/** @param {HTMLElement} main @param {{query: URLSearchParams, signal: AbortSignal}} place */
export async function show(main, { query, signal }) {
  const text = query.get('text') ?? '';
  const found = text.match(/^([^=\s]+)=(.+)$/);
  const filter = found ? { property: found[1], value: found[2] } : { text };
  const what = found ? `property ${found[1]} is ${found[2]}` : `text “${text}”`;
  const told = h('span', { class: 'quiet', role: 'status' });
  const notes = h('ul', { class: 'plain quiet' });
  const table = dataTable({
    label: 'Messages found', columns: COLUMNS, sort: '', fills: true, keeps: `find ${text}`, key: (message) => `${message.asked} ${message.place}`, empty: 'No message is found yet.',
    open: (message) => openMessage(message.asked, message.place),
  });
  main.append(h('div', { class: 'page-head' }, h('h1', {}, 'Found'), h('span', { class: 'quiet' }, `Messages whose ${what}.`), told), table.element, notes);
  const all = (await ask('GET', here('queues'), { query: { limit: MOST_QUEUES }, signal })).queues;
  const named = all.filter((/** @type {any} */ { name }) => name.toUpperCase().includes(text.toUpperCase()));
  if (named.length) note(h('a', { href: to(['queues'], { find: text }) }, `${counted(named.length, 'queue')} with this in the name`));
  /** @type {any[]} */ const messages = [];
  let searched = 0;
  for (const { name, depth, present } of all.filter((/** @type {any} */ each) => each.depth || each.present?.staged)) {
    if (name === 'SYSTEM.DDELAY.LOCAL.QUEUE') continue;
    fill(told, `searching ${name} with ${counted(depth + (present?.staged ?? 0), 'message')}`);
    await search(name);
    searched += 1;
  }
  fill(told, `${counted(messages.length, 'message')} found; ${counted(searched, 'queue')} searched.`);
  if (messages.length && main.contains(document.activeElement)) table.focus();

  /** @param {string} name */
  async function search(name) {
    let after = null;
    try {
      for (let pages = 0; pages < MOST_PAGES; pages += 1) {
        const page = await ask('GET', here('queues', name, 'messages'), { query: { ...filter, limit: MOST_OF_QUEUE, after }, signal });
        messages.push(...page.messages.map((/** @type {any} */ each) => ({ ...each, asked: name })));
        if (page.messages.length) table.set(messages);
        page.notes.forEach(note);
        after = page.next;
        if (after === null) return;
        if (messages.length >= MOST_QUEUES) break;
      }
      note([`Of ${name} the first messages were searched: `, h('a', { href: to(['messages', name], filter) }, 'search on')]);
    } catch (error) {
      if (signal.aborted) throw error;
      note(`${name} was not searched: ${/** @type {Error} */ (error).message}`);
    }
  }

  /** @param {any} content */
  function note(content) {
    const item = h('li', {}, content);
    if (![...notes.children].some((each) => each.textContent === item.textContent)) notes.append(item);
  }
}
