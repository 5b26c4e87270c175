/** Messages on queues are moved, copied, deleted and redriven: asked first, told afterwards. */
import { ask, Problem } from './api.js';
import { confirm, open } from './dialog.js';
import { h } from './dom.js';
import { count, counted } from './format.js';
import { fail, say } from './notices.js';
import { go } from './router.js';
import { here } from './session.js';

/** @typedef {{place: string, state: string}} Placed a message of a list */

const EFFECTS = {
  move: 'They keep ids, sender and deadline, and come behind those of their priority. For ten minutes this can be undone.',
  copy: 'A copy has the same MsgId and deadline, and asks for no reports.',
};
const WHY_LEFT = {
  locked: 'locked by a unit of work', uncommitted: 'uncommitted', delayed: 'delayed: cancel, reschedule or release it', expired: 'expired', gone: 'gone meanwhile',
  replaced: 'replaced by another one', over: 'can no longer be undone',
};
/** Outcomes of a redrive by their words. */
export const OUTCOMES = { redriven: 'put to the queues they were meant for', left: 'stayed', failed: 'refused again', discarded: 'discarded', gone: 'gone meanwhile', without_header: 'without a header', ignored: 'ignored', forwarded: 'forwarded' };

/** "2 moved; 1 was left: locked by a unit of work". @param {Record<string, number>} receipts */
export function receiptText(receipts) {
  const parts = Object.entries(receipts);
  const done = parts.filter(([word]) => !(word in WHY_LEFT)).map(([word, found]) => `${counted(found, 'message')} ${word}`);
  const left = parts.filter(([word]) => word in WHY_LEFT).map(([word, found]) => `${count(found)} left (${WHY_LEFT[word]})`);
  return `${[...done, ...left].join('; ') || 'Nothing was there'}.`;
}

/**
 * Move or copy messages to another queue.
 * @param {'move'|'copy'} action @param {string} queue @param {Placed[]} messages @param {() => void} done
 */
export async function transfer(action, queue, messages, done) {
  const what = counted(messages.length, 'message');
  const verb = action === 'move' ? 'Move' : 'Copy';
  try {
    const names = (await ask('GET', here('queues'), { query: { limit: 1_000 } })).queues.map((/** @type {any} */ each) => each.name);
    const to = await open(`${verb} ${what} of ${queue}?`, (close) => {
      const input = /** @type {HTMLInputElement} */ (h('input', { 'aria-label': 'To the queue', placeholder: 'Queue, or QUEUE@MANAGER', list: 'queue-names', required: true, autofocus: true, autocomplete: 'off' }));
      const submit = (/** @type {Event} */ event) => (event.preventDefault(), close(input.value.trim()));
      return h('form', { onsubmit: submit }, h('label', { class: 'field' }, 'To', input),
        h('datalist', { id: 'queue-names' }, names.map((/** @type {string} */ name) => h('option', { value: name }))),
        h('p', {}, EFFECTS[action]),
        h('div', { class: 'tools' }, h('button', { type: 'button', onclick: () => close(null) }, 'Leave it'), h('button', { type: 'submit', class: 'main' }, `${verb} ${what}`)));
    });
    if (!to) return;
    const body = { places: messages.map(({ place }) => place), to };
    const { receipts, undo } = await ask('POST', here('queues', queue, 'messages', action), { body });
    say(receiptText(receipts), undo ? { action: { label: 'Undo', run: () => undoChange([undo], done) } } : {});
    done();
  } catch (error) {
    fail(error);
  }
}

/** Delete messages; the number is typed when there are several. @param {string} queue @param {Placed[]} messages @param {() => void} done */
export async function remove(queue, messages, done) {
  const what = counted(messages.length, 'message');
  try {
    const typed = await open(`Delete ${what} of ${queue}?`, (close) => {
      const input = /** @type {HTMLInputElement} */ (h('input', { inputmode: 'numeric', autocomplete: 'off', 'aria-label': 'How many messages are deleted', required: true, autofocus: true, class: 'short' }));
      const submit = (/** @type {Event} */ event) => (event.preventDefault(), close(input.value.trim()));
      return h('form', { onsubmit: submit },
        h('p', {}, 'Their lives end as cleared, and no report is made. This cannot be undone.'),
        h('label', { class: 'field' }, `Type ${messages.length}, how many are deleted:`, input),
        h('div', { class: 'tools' }, h('button', { type: 'button', onclick: () => close(null) }, 'Leave it'), h('button', { type: 'submit', class: 'main destroys' }, `Delete ${what}`)));
    });
    if (typed === null) return;
    if (Number(typed) !== messages.length) {
      say(`Nothing is deleted: ${what} would be, and you typed ${typed}.`);
      return;
    }
    const body = { places: messages.map(({ place }) => place), count: messages.length };
    const { receipts } = await ask('POST', here('queues', queue, 'messages', 'delete'), { body });
    say(receiptText(receipts));
    done();
  } catch (error) {
    fail(error);
  }
}

/**
 * Redrive dead letters: those of places, or all that conditions of a rule table find.
 * @param {{queue: string, places?: string[], where?: string, targets: string[]}} asked @param {() => void} done
 */
export async function redrive({ queue, places = [], where = '', targets }, done) {
  try {
    const body = { action: 'redrive', queue, places, where };
    const foreseen = await ask('POST', here('dead-letters'), { body: { ...body, dry_run: true } });
    const what = counted(foreseen.redriven, 'letter');
    const names = [...new Set(targets)];
    const effect = [
      h('p', {}, `Redrive puts ${what} back to ${names.slice(0, 4).join(', ')}${names.length > 4 ? ` and ${names.length - 4} other queues` : ''}, once. A letter whose queue refuses it stays here.`),
      h('p', { class: 'quiet' }, places.length ? 'The letters that are chosen.' : where ? `Letters with ${where}.` : 'All letters.'),
    ];
    if (!(await confirm({ title: `Redrive ${what}?`, effect, action: `Redrive ${what}` }))) return;
    const summary = await ask('POST', here('dead-letters'), { body });
    const parts = Object.entries(OUTCOMES).filter(([word]) => summary[word]).map(([word, text]) => `${counted(summary[word], 'letter')} ${summary[word] === 1 && word === 'redriven' ? 'put to the queue it was meant for' : text}`);
    const failures = Object.entries(summary.failures).map(([why, times]) => `${why} ${count(/** @type {number} */ (times))} times`);
    say(`${parts.join(', ') || 'Nothing was there'}${failures.length ? ` (${failures.join(', ')})` : ''}.`, names.length === 1 && summary.redriven ? { action: { label: `Open ${names[0]}`, run: () => go(['queue', names[0]]) } } : {});
    done();
  } catch (error) {
    fail(error);
  }
}

/** Undo changes by their ids, and tell what became of the messages. @param {string[]} undos @param {() => void} done */
export async function undoChange(undos, done) {
  try {
    /** @type {Record<string, number>} */ const all = {};
    for (const undo of undos) {
      const receipts = await undoOne(undo);
      for (const [word, found] of Object.entries(receipts)) all[word] = (all[word] ?? 0) + Number(found);
    }
    say(receiptText(all));
    done();
  } catch (error) {
    fail(error);
  }
}

/** What became of the messages of one change; one that is over is counted as such. @param {string} undo @returns {Promise<Record<string, number>>} */
async function undoOne(undo) {
  try {
    return (await ask('POST', here('undo', undo))).receipts;
  } catch (error) {
    if (error instanceof Problem && error.status === 404) return { over: 1 };
    throw error;
  }
}

/** Go to a message. @param {string} queue @param {string} place */
export const openMessage = (queue, place) => go(['message', queue, place]);
