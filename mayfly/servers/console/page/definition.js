/** The attributes of an object, and its changes: each against the version that was shown. */
import { ask, askWithTag, Problem } from './api.js';
import { attributeForm } from './attribute_form.js';
import { confirmByName } from './by_name.js';
import { confirm } from './dialog.js';
import { h } from './dom.js';
import { counted } from './format.js';
import { fail, say } from './notices.js';
import { roleButton, whyNot } from './roles.js';
import { go } from './router.js';
import { here } from './session.js';
import { dataTable } from './table.js';

/** What is so when an object is gone. */
const GONE = {
  sub: 'Publications are not put to its queue any more; those that are there stay.',
  topic: 'Its topic string has the attributes of the topic object above it from now on.',
  channel: 'A channel that is started or has a batch in doubt is not deleted. Its status goes with it.',
};
const GONE_ELSE = 'Programs that open it by its name are refused from now on: 2085 MQRC_UNKNOWN_OBJECT_NAME.';

/**
 * @param {string} kind as in MQSC, in lower case
 * @param {string} name
 * @param {AbortSignal} signal
 * @param {(attributes: Record<string, any>, change?: (keyword: string) => void) => void} [drawn] called with the
 *   attributes at first and after each change; `change` opens the form of one, undefined for who may not
 */
export async function definition(kind, name, signal, drawn = () => {}) {
  const path = here('definitions', kind, name);
  const why = whyNot('administer');
  const find = /** @type {HTMLInputElement} */ (h('input', { type: 'search', 'aria-label': 'Find an attribute', placeholder: 'Find an attribute', oninput: draw }));
  const table = dataTable({
    label: 'Attributes', key: ({ keyword }) => keyword, empty: 'No attribute has such a name.', open: why ? undefined : ({ keyword }) => form(keyword),
    columns: [
      { key: 'keyword', label: 'Attribute', value: ({ keyword }) => keyword.toUpperCase(), cell: ({ keyword }) => h('code', {}, keyword.toUpperCase()) },
      { key: 'value', label: 'Value', value: ({ value }) => String(value) },
    ],
  });
  let { content, etag } = await askWithTag('GET', path, { signal });

  function draw() {
    drawn(content.attributes, why ? undefined : (keyword) => form(keyword));
    const part = find.value.trim().toLowerCase();
    const rows = Object.entries(content.attributes).map(([keyword, value]) => ({ keyword, value }));
    table.set(rows.filter(({ keyword }) => keyword.includes(part)));
  }

  /** What is there now; somebody else may have changed it. */
  async function reload() {
    ({ content, etag } = await askWithTag('GET', path));
    draw();
  }

  /** Alter one attribute, or any of them. @param {string} [only] */
  async function form(only) {
    const before = content.attributes;
    const title = only ? `Change ${only.toUpperCase()} of ${name}` : `Alter ${name}`;
    /** @type {Record<string, any>} */ let attributes = {};
    await attributeForm({
      title, action: 'Change', kind, name, only, present: before, type: before.chltype ?? before.authtype ?? '',
      command: (given, asking) => commandOf(kind, name, { action: 'alter', attributes: given.attributes }, asking),
      save: (given) => alter((attributes = given.attributes)),
    }).then((isSaved) => {
      const undone = Object.fromEntries(Object.keys(attributes).map((keyword) => [keyword, before[keyword]]));
      if (isSaved) say(changes(attributes), { action: { label: 'Undo', run: () => alter(undone).then(() => say(changes(undone)), fail) } });
    }, fail);
  }

  /** What is so now; a secret was checked, and is shown nowhere. @param {Record<string, any>} attributes */
  function changes(attributes) {
    const now = (/** @type {string} */ keyword) => content.attributes[keyword];
    const texts = Object.entries(attributes).map(([keyword, value]) => `${keyword.toUpperCase()} of ${name} is ${String(now(keyword)) !== String(value) ? 'changed' : value === '' ? 'empty' : value}.`);
    return texts.join(' ');
  }

  /** @param {Record<string, any>} attributes */
  async function alter(attributes) {
    try {
      ({ content, etag } = await askWithTag('PATCH', path, { body: { attributes }, match: etag }));
      draw();
    } catch (error) {
      if (error instanceof Problem && error.status === 412) await reload();
      throw error;
    }
  }

  async function clear() {
    const [command, effect, depth] = await Promise.all([commandOf(kind, name, { action: 'clear' }), effectOn(name), depthOf(name)]);
    const what = counted(depth, 'message');
    const told = [effect, h('p', { class: 'quiet' }, 'They are gone for good. A queue that a program has open is not cleared.'), h('pre', { class: 'mqsc' }, h('code', {}, command))];
    if (!(await confirm({ title: `Clear ${name}?`, effect: told, action: `Clear ${what}`, destroys: true }))) return;
    const { ok, text } = await ask('POST', here('mqsc'), { body: { script: command } });
    say(repliesIn(text) || text, { problem: !ok });
  }

  async function remove() {
    const [command, purging] = await Promise.all([false, true].map((purge) => commandOf(kind, name, { action: 'delete', purge })));
    const isQueue = kind === 'qlocal';
    const answer = await confirmByName({
      title: `Delete ${name}?`, name, action: 'Delete', command, effect: [isQueue && (await effectOn(name)), h('p', {}, GONE[kind] ?? GONE_ELSE)],
      purge: isQueue ? { label: 'With the messages on it', command: purging } : undefined,
    });
    if (!answer) return;
    await ask('DELETE', path, { match: etag, query: { purge: answer.purge || null } });
    say(`${name} is deleted.`);
    go(['objects', kind]);
  }

  draw();
  const act = (/** @type {() => Promise<any>} */ what) => () => what().catch(fail);
  const buttons = [
    roleButton('administer', { onclick: act(form) }, 'Alter…'),
    kind !== 'qmgr' && roleButton('administer', { onclick: act(() => define(kind, name, content.attributes)) }, 'Define like this…'),
    kind === 'qlocal' && roleButton('administer', { class: 'destroys', onclick: act(clear) }, 'Clear…'),
    kind !== 'qmgr' && roleButton('administer', { class: 'destroys', onclick: act(remove) }, 'Delete…'),
  ];
  return h('section', { class: 'stack', 'aria-label': 'Definition' },
    h('div', { class: 'page-head' }, h('h2', {}, 'Attributes'), h('span', { class: 'quiet' }, why ?? 'Enter or a click changes one.'), h('div', { class: 'tools' }, find, buttons)),
    table.element);
}

/**
 * Define an object by a form, and go to it.
 * @param {string} kind @param {string} [like] an object of the kind @param {Record<string, any>} [attributes] its attributes
 */
export function define(kind, like = '', attributes = {}) {
  return attributeForm({
    title: `Define a ${kind.toUpperCase()}`, action: 'Define', kind, like, type: attributes.chltype ?? attributes.authtype ?? '',
    command: ({ name, ...given }, signal) => commandOf(kind, name, { action: 'define', ...given }, signal),
    save: async ({ name, ...given }) => {
      await ask('PUT', here('definitions', kind, name), { body: given, isNew: true }).catch((problem) => {
        throw problem.status === 412 ? new Error(`${name} is there already: alter it, or take another name.`) : problem;
      });
      say(`${name} is defined.`);
      go(['objects', kind, name]);
    },
  });
}

/** The MQSC of a change. @param {string} kind @param {string} name @param {object} body @param {AbortSignal} [signal] @returns {Promise<string>} */
const commandOf = async (kind, name, body, signal) => (await ask('POST', here('definitions', kind, name, 'command'), { body, signal })).command;

/** @param {string} name @returns {Promise<number>} */
const depthOf = async (name) => (await ask('GET', here('queues', name))).depth;

/** What is on a queue, and who has it open. @param {string} name */
async function effectOn(name) {
  const { depth, present, input_count, output_count } = await ask('GET', here('queues', name));
  const parts = [
    `${counted(depth, 'message')} on it`, present?.staged && `${counted(present.staged, 'delayed message')} for it`,
    input_count && `open for input ${counted(input_count, 'time')}`, output_count && `open for output ${counted(output_count, 'time')}`,
  ];
  return h('p', {}, `${name}: ${parts.filter(Boolean).join(', ')}.`);
}

/** The replies in a transcript, without the commands. @param {string} text */
const repliesIn = (text) => text.split('\n').filter((line) => /^[A-Z]{3}\d{4}[A-Z]: /.test(line)).join(' ');
