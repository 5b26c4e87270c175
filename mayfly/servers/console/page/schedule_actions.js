/** Delayed messages are cancelled, released and rescheduled: asked first, told afterwards. */
import { ask, Problem } from './api.js';
import { open } from './dialog.js';
import { h } from './dom.js';
import { durationField, momentField } from './fields.js';
import { count, counted, local } from './format.js';
import { undoChange } from './message_actions.js';
import { fail, say } from './notices.js';
import { here } from './session.js';

/**
 * @typedef {{msg_id: string, deliver_at_ms: number, target: string}} Delayed
 * @typedef {{queue?: string, sender?: string, properties?: Record<string, string>, due_from_ms?: number, due_before_ms?: number}} Filter
 * @typedef {{messages: Delayed[]} | {where: Filter}} Scope some messages, or all that a filter finds
 */

const DONE = { cancel: 'cancelled', release: 'released', reschedule: 'rescheduled' };
const EFFECTS = {
  cancel: (/** @type {string} */ what) => `${what} will never be delivered. For ten minutes this can be undone.`,
  release: (/** @type {string} */ what) => `${what} will go to the queue now, before the delivery time. This cannot be undone.`,
};
const MOST_UNDONE = 1_000;

/**
 * Ask, act, tell.
 * @param {'cancel'|'release'|'reschedule'} action
 * @param {Scope} scope
 * @param {{now_ms: number, done: () => void}} more `done` is called after a change
 */
export async function change(action, scope, { now_ms, done }) {
  try {
    const found = 'messages' in scope ? scope.messages.length : await preview(action, scope.where);
    if (!found) {
      say('No message is chosen.');
      return;
    }
    const times = await confirmed(action, scope, found, now_ms);
    if (!times) return;
    const before = action === 'reschedule' ? await timesOf(scope, found) : null;
    const told = 'messages' in scope ? await changeEach(action, scope.messages, times) : await changeAll(action, scope.where, times);
    const { text, undos } = told;
    if (before) say(text, { action: { label: 'Undo', run: () => undo(before, done) } });
    else say(text, undos.length ? { action: { label: 'Undo', run: () => undoChange(undos, done) } } : {});
    done();
  } catch (error) {
    fail(error);
  }
}

/** How many messages a change would meet. @param {string} action @param {Filter} where */
async function preview(action, where) {
  // The server counts; the time stands for any.
  const time = action === 'reschedule' ? { by_ms: 0 } : {};
  const body = { action, where, all: true, dry_run: true, ...time };
  return (await ask('POST', here('schedule'), { body })).message_count;
}

/**
 * @param {'cancel'|'release'|'reschedule'} action
 * @param {Scope} scope
 * @param {number} found
 * @param {number} now_ms
 * @returns {Promise<Record<string, number>|null>} the times of the change, null when it is not wanted
 */
function confirmed(action, scope, found, now_ms) {
  const what = counted(found, 'message');
  const verb = action[0].toUpperCase() + action.slice(1);
  const isFew = 'messages' in scope;
  return open(`${verb} ${what}?`, (close) => {
    const go = h('button', { type: 'submit', class: `main${action === 'cancel' ? ' destroys' : ''}` }, `${verb} ${what}`);
    const tools = h('div', { class: 'tools' }, h('button', { type: 'button', autofocus: true, onclick: () => close(null) }, 'Leave it'), go);
    const scopeText = h('p', { class: 'quiet' }, isFew ? targetsOf(scope.messages) : filterText(scope.where));
    const time = action === 'reschedule' ? timeForm(now_ms, isFew ? scope.messages : []) : null;
    const effect = time ? time.element : h('p', {}, EFFECTS[action](what));
    return h('form', { onsubmit: (/** @type {Event} */ event) => (event.preventDefault(), close(time ? time.value() : {})) }, scopeText, effect, tools);
  });
}

/** Queue and delivery time of one message, the queues of several. @param {Delayed[]} messages */
function targetsOf(messages) {
  if (messages.length === 1) return `For ${messages[0].target}, due ${local(messages[0].deliver_at_ms)}; its MsgId ends with ${messages[0].msg_id.slice(-8)}.`;
  const names = [...new Set(messages.map(({ target }) => target))];
  return `For ${names.slice(0, 3).join(', ')}${names.length > 3 ? ` and ${names.length - 3} other queues` : ''}.`;
}

/** @param {Filter} where */
function filterText({ queue, sender, properties, due_from_ms, due_before_ms }) {
  const named = Object.entries(properties ?? {}).map(([name, value]) => `with ${name}=${value}`);
  const parts = [queue && `for ${queue}`, sender && `of ${sender}`, ...named, due_from_ms && `due from ${local(due_from_ms)}`, due_before_ms && `due before ${local(due_before_ms)}`];
  return `All delayed messages ${parts.filter(Boolean).join(', ')}.`;
}

/** Choose a time. @param {number} now_ms @param {Delayed[]} messages */
function timeForm(now_ms, messages) {
  const to = momentField('New delivery time', messages[0]?.deliver_at_ms ?? now_ms);
  const by = durationField('Time to move by');
  const ways = {
    later: ['Later by', by, () => ({ by_ms: by.ms() })],
    earlier: ['Earlier by', by, () => ({ by_ms: -by.ms() })],
    at: ['At a moment', to, () => ({ deliver_at_ms: to.ms() })],
  };
  const place = h('span', {}, by.element);
  const choice = /** @type {HTMLSelectElement} */ (h('select', { 'aria-label': 'How to reschedule', onchange: () => place.replaceChildren(ways[choice.value][1].element) },
    Object.entries(ways).map(([value, [label]]) => h('option', { value }, label))));
  return { element: h('div', { class: 'tools' }, choice, place), value: () => ways[choice.value][2]() };
}

/** @param {string} action @param {Filter} where @param {Record<string, number>} times */
async function changeAll(action, where, times) {
  const told = await ask('POST', here('schedule'), { body: { action, where, all: true, ...times } });
  return { text: `${counted(told.message_count, 'message')} ${told.receipt}.`, undos: told.undo ? [told.undo] : [] };
}

/**
 * Change one after the other; each MsgId has its receipt, which is for all messages of that id.
 * @param {string} action
 * @param {Delayed[]} messages
 * @param {Record<string, number>} times
 */
async function changeEach(action, messages, { by_ms, ...times }) {
  /** @type {Record<string, number>} */ const receipts = {};
  /** @type {string[]} */ const undos = [];
  const chosen = new Map([...messages].reverse().map((message) => [message.msg_id, message]));
  for (const { msg_id, deliver_at_ms } of [...chosen.values()].reverse()) {
    const body = action === 'reschedule' ? (by_ms === undefined ? times : { deliver_at_ms: deliver_at_ms + by_ms }) : undefined;
    const { receipt, message_count, undo: undoId } = await changeOne(action, msg_id, body);
    if (undoId) undos.push(undoId);
    receipts[receipt] = (receipts[receipt] ?? 0) + message_count;
  }
  const told = Object.entries(receipts).map(([receipt, found]) => `${count(found)} ${receipt}`);
  const isOne = messages.length === 1 && Object.values(receipts)[0] === 1;
  const [{ target, deliver_at_ms: dueMs }] = messages;
  return { text: isOne ? `Message ${Object.keys(receipts)[0]}. It was for ${target}, due ${local(dueMs)}.` : `${told.join(', ')}.`, undos };
}

/**
 * @param {string} action
 * @param {string} msg_id
 * @param {object} [body]
 * @returns {Promise<{receipt: string, message_count: number, undo?: string|null}>} the receipt, and the number of messages it is for
 */
async function changeOne(action, msg_id, body) {
  try {
    return await ask('POST', here('schedule', msg_id, action), { body });
  } catch (error) {
    if (error instanceof Problem && error.content.receipt) return { receipt: error.content.receipt, message_count: 1 };
    throw error;
  }
}

/** The delivery times before a change, null for more than can be put back. @param {Scope} scope @param {number} found */
async function timesOf(scope, found) {
  if ('messages' in scope) return scope.messages;
  if (found > MOST_UNDONE) return null;
  const { properties, ...where } = scope.where;
  const [property, value] = Object.entries(properties ?? {})[0] ?? [];
  return (await ask('GET', here('schedule'), { query: { ...where, property, value, limit: MOST_UNDONE } })).messages;
}

/** @param {Delayed[]} before @param {() => void} done */
async function undo(before, done) {
  try {
    let back = 0;
    for (const { msg_id, deliver_at_ms } of before) {
      if ((await changeOne('reschedule', msg_id, { deliver_at_ms })).receipt === DONE.reschedule) back += 1;
    }
    const left = before.length - back;
    say(`${counted(back, 'message')} back at the former delivery time${left ? `; ${count(left)} had left` : ''}.`);
    done();
  } catch (error) {
    fail(error);
  }
}
