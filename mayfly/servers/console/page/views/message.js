/** One message: where it stands and why, its headers, properties and data, and what can be done. */
import { ask } from '../api.js';
import { factList, h } from '../dom.js';
import { bytes, duration, id, moment, state } from '../format.js';
import { now } from '../live.js';
import { redrive, remove, transfer } from '../message_actions.js';
import { bodyView } from '../message_body.js';
import { roleButton } from '../roles.js';
import { go, to } from '../router.js';
import { change } from '../schedule_actions.js';
import { here } from '../session.js';
import { tell } from '../signals.js';
import { dataTable } from '../table.js';

/** @param {HTMLElement} main @param {{args: string[], signal: AbortSignal}} place */
export async function show(main, { args: [queue, place], signal }) {
  const path = here('queues', queue, 'messages', place);
  const load = (/** @type {object} */ query) => ask('GET', path, { query, signal });
  main.append(h('div', { class: 'page-head' }, h('h1', {}, 'Message'),
    h('div', { class: 'tools' }, h('a', { href: to(['messages', queue]) }, `Messages of ${queue}`))));
  const told = await load({});
  const { message } = told;
  const back = () => (go(['messages', queue]), tell('messages'));
  main.append(
    h('section', { class: 'panel stack', 'aria-label': 'State' },
      h('p', { class: 'standing' }, state(message.state), ' ', sentenceOf(message, queue)),
      told.headers.filter((/** @type {any} */ each) => each.sentence && each.name !== 'DDH').map((/** @type {any} */ each) => h('p', {}, each.sentence, ' ', each.name === 'MQDLH' && message.meant_for && h('a', { href: to(['queue', message.meant_for]) }, `The queue ${message.meant_for}`))),
      told.damage && h('p', { class: 'bad' }, told.damage),
      h('div', { class: 'tools' }, actionsOf(queue, message, back), h('a', { href: to(['trace', message.msg_id]) }, 'Its trace'))),
    h('section', { class: 'panel stack', 'aria-labelledby': 'data' }, h('h2', { id: 'data' }, 'Data'),
      message.state === 'uncommitted' ? h('p', { class: 'quiet' }, 'Nobody sees the data before the commit.') : bodyView(told.data, async (ccsid) => (await load({ ccsid: ccsid || null })).data)),
    h('h2', {}, 'Properties'), propertyTable(told.properties),
    h('div', { class: 'panels wide' },
      h('section', { class: 'panel', 'aria-labelledby': 'facts' }, h('h2', { id: 'facts' }, 'Message'), factsOf(message)),
      told.headers.map((/** @type {any} */ header, /** @type {number} */ index) => h('section', { class: 'panel', 'aria-labelledby': `header-${index}` },
        h('h2', { id: `header-${index}` }, header.name, h('span', { class: 'quiet' }, ` at ${header.offset}, ${bytes(header.length_bytes)}`)),
        fieldList(header.fields), header.folders.map((/** @type {string} */ folder) => h('pre', { class: 'body', tabindex: '0', role: 'region', 'aria-label': `Folder ${folder.slice(1, 9)}` }, folder)))),
      h('section', { class: 'panel', 'aria-labelledby': 'md' }, h('h2', { id: 'md' }, 'MQMD'), fieldList(told.descriptor))),
  );
}

/** Where a message stands, in words. @param {any} message @param {string} queue */
function sentenceOf(message, queue) {
  const end = message.expire_at_ms === null ? ' It never expires.' : [' It expires ', moment(message.expire_at_ms, now()), '.'];
  const words = {
    live: [`It is on ${queue} and can be got.`, end],
    staged: message.target ? ['It waits for ', moment(message.deliver_at_ms, now()), `, and then goes to ${message.target}.`, end] : [`It is on ${queue}: ${message.hindrance}.`, end],
    uncommitted: [`It is put by ${message.holder}, and cannot be changed before the commit.`],
    locked: [`It is held by ${message.holder || 'a unit of work'}, and cannot be changed meanwhile.`, end],
    claimed: [`It is held by ${message.holder}, and cannot be changed meanwhile.`, end],
    expired_present: ['It has expired ', message.expire_at_ms !== null && moment(message.expire_at_ms, now()), '; the next get, browse or scan discards it.'],
  };
  return words[message.state] ?? '';
}

/** The buttons for what can be done with a message. @param {string} queue @param {any} message @param {() => void} back */
function actionsOf(queue, message, back) {
  const one = [message];
  const button = (/** @type {string} */ label, /** @type {() => void} */ act, destroys = false) => roleButton('operate', { class: destroys ? 'destroys' : null, onclick: act }, `${label}…`);
  const now_ms = now();
  if (message.state === 'staged' && message.target) {
    return [
      button('Release', () => change('release', { messages: one }, { now_ms, done: back })),
      button('Reschedule', () => change('reschedule', { messages: one }, { now_ms, done: back })),
      button('Cancel', () => change('cancel', { messages: one }, { now_ms, done: back }), true),
    ];
  }
  if (message.state !== 'live') return null;
  return [
    message.meant_for && button('Redrive', () => redrive({ queue, places: [message.place], targets: [message.meant_for] }, back)),
    button('Move', () => transfer('move', queue, one, back)),
    button('Copy', () => transfer('copy', queue, one, () => {})),
    button('Delete', () => remove(queue, one, back), true),
  ];
}

/** @param {any} message */
const factsOf = (message) => factList(
  ['MsgId', id(message.msg_id)],
  ['CorrelId', id(message.correl_id)],
  ['Put', moment(message.put_ms, now())],
  message.deliver_at_ms === message.put_ms ? null : ['Delivery time', moment(message.deliver_at_ms, now())],
  ['Expires', moment(message.expire_at_ms, now())],
  ['Sender', `${message.user_identifier}${message.program ? ` (${message.program})` : ''}`],
  ['Age', duration(message.age_ms)],
  ['Priority', String(message.priority)],
  ['Persistent', message.persistent ? 'yes' : 'no'],
  ['Backouts', String(message.backout_count)],
  message.topic && ['Topic', message.topic],
  message.capped_by && ['Life shortened by', message.capped_by],
);

/** Fields of a structure with their meanings. @param {{name: string, value: string, meaning: string|null}[]} fields */
const fieldList = (fields) => factList(...fields.map(({ name, value, meaning }) => /** @type {[string, any]} */ ([name, [h('code', {}, value.replace(/(00)+$/, '') || (value && '0')), meaning && h('span', { class: 'quiet' }, ` · ${meaning}`)]])));

/** @param {any[]} properties */
function propertyTable(properties) {
  if (!properties.length) return h('p', { class: 'quiet' }, 'It has none.');
  const table = dataTable({
    label: 'Properties', wraps: true, key: ({ name }) => name,
    columns: [
      { key: 'name', label: 'Property', value: ({ name }) => name, cell: ({ name }) => h('code', {}, name) },
      { key: 'type', label: 'Type', value: ({ type }) => type },
      { key: 'value', label: 'Value', value: ({ value }) => value ?? 'null' },
    ],
  });
  table.set(properties);
  return table.element;
}
