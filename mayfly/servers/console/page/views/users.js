/** Users with their groups, and what authority records let them do. For administrators. */
import { ask, askWithTag, Problem } from '../api.js';
import { confirmByName } from '../by_name.js';
import { open } from '../dialog.js';
import { fill, h } from '../dom.js';
import { counted } from '../format.js';
import { mqscPreview } from '../mqsc_preview.js';
import { fail, say } from '../notices.js';
import { whyNot } from '../roles.js';
import { here, session } from '../session.js';
import { dataTable } from '../table.js';

const MOST = 10_000;
/** What a program needs of a queue. */
const USUAL = ['BROWSE', 'GET', 'INQ', 'PUT'];

/** @param {HTMLElement} main @param {{signal: AbortSignal}} place */
export async function show(main, { signal }) {
  const why = whyNot('administer');
  if (why) {
    main.append(h('div', { class: 'page-head' }, h('h1', {}, 'Users')),
      h('p', { class: 'panel' }, `${session.user} may not look at users and authority records. ${why}`));
    return;
  }
  const told = h('span', { class: 'quiet', role: 'status' });
  const users = dataTable({
    label: 'Users', sort: 'name', key: (user) => user.name, open: editUser, empty: 'No user has a password here.',
    columns: [
      { key: 'name', label: 'User', value: (user) => user.name },
      { key: 'groups', label: 'Groups', value: (user) => user.groups.join(', ') },
      { key: 'admin', label: 'Administrator', value: (user) => (user.is_administrator ? 'yes' : '') },
    ],
  });
  const records = dataTable({
    label: 'Authority records', sort: 'type', key: (record) => pathOf(record).join('/'), open: editRecord, fills: true, empty: 'No record: only administrators may do anything.',
    columns: [
      { key: 'type', label: 'Type', value: (record) => record.object_type },
      { key: 'profile', label: 'Profile', value: (record) => record.profile },
      { key: 'kind', label: 'For', value: (record) => record.entity_kind },
      { key: 'entity', label: 'Name', value: (record) => record.entity },
      { key: 'authorities', label: 'May', value: (record) => record.authorities.join(', ') },
    ],
  });
  main.append(
    h('div', { class: 'page-head' }, h('h1', {}, 'Users'), told, h('div', { class: 'tools' }, h('button', { type: 'button', class: 'main', onclick: () => editUser(null) }, 'Add a user…'))),
    users.element,
    h('div', { class: 'page-head' }, h('h2', {}, 'Authority records'), h('div', { class: 'tools' }, h('button', { type: 'button', onclick: () => editRecord(null) }, 'Add a record…'))),
    records.element,
  );

  async function load() {
    const query = { limit: MOST };
    const [found, given] = await Promise.all([ask('GET', here('users'), { query, signal }), ask('GET', here('authority-records'), { query, signal })]);
    users.set(found.users);
    records.set(given.records);
    fill(told, `${counted(found.users.length, 'user')}, ${counted(given.records.length, 'record')}`);
  }

  /** Do something, tell it, show what is there now. @param {() => Promise<string|null>} act */
  async function doing(act) {
    try {
      const text = await act();
      if (text) say(text);
    } catch (error) {
      fail(error);
    }
    load().catch(fail);
  }

  /** @param {any} user null for a new one */
  function editUser(user) {
    return doing(async () => {
      const done = await userForm(user);
      return done === 'remove' ? removeUser(user) : done;
    });
  }

  /** @param {any} user */
  async function removeUser({ name }) {
    const effect = h('p', {}, 'Nobody can sign in as this user any more. Connections that are open stay open.');
    const command = `mayfly user remove ${session.manager} ${name}`;
    if (!(await confirmByName({ title: `Remove user ${name}?`, effect, name, action: 'Remove', command }))) return null;
    await ask('DELETE', here('users', name), { match: '*' });
    return `User ${name} is removed.`;
  }

  /** @param {any} record null for a new one */
  function editRecord(record) {
    return doing(async () => {
      const done = await recordForm(record);
      return done === 'remove' ? removeRecord(record) : done;
    });
  }

  /** @param {any} record */
  async function removeRecord(record) {
    const path = here('authority-records', ...pathOf(record));
    const { command } = await ask('POST', `${path}/command`, { body: { deletes: true } });
    const effect = h('p', {}, `${record.entity} loses ${record.authorities.join(', ') || 'nothing'} on ${record.object_type} ${record.profile}, unless another record gives it.`);
    if (!(await confirmByName({ title: `Remove the record of ${record.entity}?`, effect, name: record.entity, action: 'Remove', command }))) return null;
    await ask('DELETE', path, { match: '*' });
    const put = () => doing(async () => (await ask('PUT', path, { body: { authorities: record.authorities } }), 'The record is there again.'));
    say(`The record of ${record.entity} is removed.`, { action: { label: 'Undo', run: put } });
    return null;
  }

  await load();
}

/**
 * A form that stays open until it is saved or left; an error stands above its buttons.
 * @param {string} title @param {any[]} fields @param {{action: string, remove: boolean, preview?: HTMLElement, changed?: () => void,
 *   save: () => Promise<string>}} asked `save` returns what was done
 * @returns {Promise<string|null>} what was done, "remove" for the other button
 */
function form(title, fields, { action, remove, preview, changed, save }) {
  return open(title, (close) => {
    const error = h('p', { class: 'error', role: 'alert' });
    const submit = async (/** @type {Event} */ event) => {
      event.preventDefault();
      fill(error, '');
      await save().then(close, (problem) => fill(error, problem instanceof Problem ? problem.said : String(problem)));
    };
    return h('form', { onsubmit: submit, oninput: () => (fill(error, ''), changed?.()) }, fields, preview, error,
      h('div', { class: 'tools' },
        remove && h('button', { type: 'button', class: 'destroys', onclick: () => close('remove') }, 'Remove…'),
        h('button', { type: 'button', onclick: () => close(null) }, 'Leave it'), h('button', { type: 'submit', class: 'main' }, action)));
  });
}

/** A field with its label before it. @param {string} label @param {string} name @param {HTMLElement} input @param {string} [hint] */
const line = (label, name, input, hint) => {
  input.id = `form-${name}`;
  return h('div', { class: 'attribute' }, h('label', { for: input.id }, label), input, hint && h('span', { class: 'quiet' }, hint));
};

/** @param {Record<string, any>} properties */
const text = (properties) => /** @type {HTMLInputElement} */ (h('input', { autocomplete: 'off', spellcheck: 'false', autocapitalize: 'none', ...properties }));

/** @param {any} user null for a new one @returns {Promise<string|null>} */
async function userForm(user) {
  const etag = user && (await askWithTag('GET', here('users', user.name))).etag;
  const name = text({ required: true, value: user?.name ?? '', disabled: Boolean(user), autofocus: !user });
  const groups = text({ value: user?.groups.join(', ') ?? '', autofocus: Boolean(user) });
  const password = text({ type: 'password', autocomplete: 'new-password', required: !user });
  const command = h('code');
  const changed = () => fill(command, commandsOf(name.value, wordsOf(groups.value), { isNew: !user, hasPassword: password.value !== '' }));
  changed();
  return form(user ? `User ${user.name}` : 'Add a user', [
    line('User', 'user', name, user ? '' : '1 to 12 characters of A-Z a-z 0-9 . _ @ -'), line('Groups', 'groups', groups, 'with commas between; members of mqm are administrators'),
    line('Password', 'password', password, user ? 'empty for the present one' : ''),
  ], {
    action: user ? 'Change' : 'Add', remove: Boolean(user), changed, preview: h('pre', { class: 'mqsc', role: 'region', 'aria-label': 'On the command line', tabindex: '0' }, command),
    async save() {
      const wanted = wordsOf(groups.value);
      if (!user) await ask('PUT', here('users', name.value), { body: { password: password.value, groups: wanted } });
      else await ask('PATCH', here('users', user.name), { body: { groups: wanted, ...(password.value && { password: password.value }) }, match: etag });
      return `User ${name.value} is ${user ? 'changed' : 'added'}.`;
    },
  });
}

/** What the command line would do: users are no objects of MQSC. @param {string} name @param {string[]} groups @param {{isNew: boolean, hasPassword: boolean}} given */
function commandsOf(name, groups, { isNew, hasPassword }) {
  const of = (/** @type {string} */ verb, /** @type {string[]} */ more) => ['mayfly user', verb, session.manager, name || 'USER', ...more].join(' ');
  if (isNew) return of('add', groups.map((group) => `--group ${group}`));
  return [of('groups', groups), hasPassword && of('passwd', [])].filter(Boolean).join('\n');
}

/** @param {any} record null for a new one @returns {Promise<string|null>} */
async function recordForm(record) {
  const { object_types } = await ask('GET', here('authorities'));
  const select = (/** @type {string[]} */ words, /** @type {string} */ chosen, /** @type {Record<string, any>} */ more = {}) =>
    /** @type {HTMLSelectElement} */ (h('select', { disabled: Boolean(record), ...more }, words.map((word) => h('option', { value: word, selected: word === chosen }, word))));
  const type = select(Object.keys(object_types), record?.object_type ?? 'queue', { onchange: drawWords });
  const profile = text({ required: true, value: record?.profile ?? '', disabled: Boolean(record), autofocus: !record });
  const kind = select(['principal', 'group'], record?.entity_kind ?? 'principal');
  const entity = text({ required: true, value: record?.entity ?? '', disabled: Boolean(record) });
  const boxes = h('div', { class: 'boxes', role: 'group', 'aria-label': 'Authorities' });
  const chosen = () => [...boxes.querySelectorAll('input')].filter(({ checked }) => checked).map(({ value }) => value);
  const path = () => here('authority-records', type.value, profile.value.trim(), kind.value, entity.value.trim());
  const error = (/** @type {any} */ problem) => preview.say(problem instanceof Problem ? problem.said : String(problem));
  const preview = mqscPreview(async (signal) => (await ask('POST', `${path()}/command`, { body: { authorities: chosen() }, signal })).command, error);

  function drawWords() {
    const given = new Set(record?.authorities ?? (boxes.childElementCount ? chosen() : USUAL));
    // Words for several authorities, and for none, are left to MQSC: each box is one authority.
    const words = object_types[type.value].filter((/** @type {string} */ word) => !/^(ALL|ALLADM|ALLMQI|NONE)$/.test(word));
    fill(boxes, words.map((/** @type {string} */ word) => h('label', { class: 'field' }, h('input', { type: 'checkbox', value: word, checked: given.has(word) }), word)));
    if (type.value === 'qmgr' && !profile.value) profile.value = 'SELF';
  }

  function changed() {
    if (profile.value.trim() && entity.value.trim()) preview.ask();
    else preview.say('It has no profile or no name yet.');
  }

  drawWords();
  changed();
  const title = record ? `${record.entity_kind} ${record.entity} on ${record.object_type} ${record.profile}` : 'Add an authority record';
  return form(title, [
    line('Type of object', 'type', type), line('Profile', 'profile', profile, 'a name, or one with ? * **; SELF of qmgr'), line('For a', 'kind', kind), line('Name', 'entity', entity), boxes,
  ], {
    action: record ? 'Change' : 'Add', remove: Boolean(record), changed, preview: preview.element,
    async save() {
      const match = record ? (await askWithTag('GET', path())).etag : undefined;
      await ask('PUT', path(), { body: { authorities: chosen() }, match });
      return `The record of ${entity.value} is ${record ? 'changed' : 'made'}.`;
    },
  });
}

/** @param {any} record */
const pathOf = (record) => [record.object_type, record.profile, record.entity_kind, record.entity];

/** @param {string} text */
const wordsOf = (text) => text.split(/[\s,]+/).filter(Boolean);
