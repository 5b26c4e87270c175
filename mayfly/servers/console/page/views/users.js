/** Users with their groups, and what authority records let them do. For administrators. */
import { ask, askWithTag } from '../api.js';
import { confirm, open } from '../dialog.js';
import { fill, h } from '../dom.js';
import { counted } from '../format.js';
import { fail, say } from '../notices.js';
import { roleButton, whyNot } from '../roles.js';
import { here } from '../session.js';
import { dataTable } from '../table.js';

const MOST = 10_000;

/** @param {HTMLElement} main @param {{signal: AbortSignal}} place */
export async function show(main, { signal }) {
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
    h('div', { class: 'page-head' }, h('h1', {}, 'Users'), told, h('div', { class: 'tools' }, roleButton('administer', { class: 'main', onclick: addUser }, 'Add a user…'))),
    users.element,
    h('div', { class: 'page-head' }, h('h2', {}, 'Authority records'), h('div', { class: 'tools' }, roleButton('administer', { onclick: () => editRecord(null) }, 'Add a record…'))),
    records.element,
  );
  const why = whyNot('administer');
  if (why) {
    fill(told, why);
    return;
  }

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

  function addUser() {
    return doing(async () => {
      const given = await form('Add a user', { user: ['User', ''], groups: ['Groups, with commas between', ''], password: ['Password', ''] }, 'Add');
      if (!given) return null;
      await ask('PUT', here('users', given.user), { body: { password: given.password, groups: wordsOf(given.groups) } });
      return `User ${given.user} is added.`;
    });
  }

  /** @param {any} user */
  function editUser(user) {
    return doing(async () => {
      const path = here('users', user.name);
      const { content, etag } = await askWithTag('GET', path);
      const fields = { groups: ['Groups, with commas between', content.groups.join(', ')], password: ['New password, empty for the present one', ''] };
      const given = await form(`User ${user.name}`, fields, 'Change', 'Remove');
      if (given === 'Remove') {
        if (!(await confirm({ title: `Remove user ${user.name}?`, effect: 'Nobody can sign in as this user any more. Connections that are open stay open.', action: 'Remove', destroys: true }))) return null;
        await ask('DELETE', path, { match: etag });
        return `User ${user.name} is removed.`;
      }
      if (!given) return null;
      const body = { groups: wordsOf(given.groups), ...(given.password && { password: given.password }) };
      await ask('PATCH', path, { body, match: etag });
      return `User ${user.name} is changed.`;
    });
  }

  /** @param {any} record null for a new one */
  function editRecord(record) {
    return doing(async () => {
      const place = { object_type: ['Type of object', 'queue'], profile: ['Profile', ''], entity_kind: ['principal or group', 'principal'], entity: ['Name', ''] };
      const words = { authorities: ['Authorities, with commas between', record ? record.authorities.join(', ') : 'GET, PUT, INQ, BROWSE'] };
      const title = record ? `${record.entity_kind} ${record.entity} on ${record.object_type} ${record.profile}` : 'Add an authority record';
      const given = await form(title, record ? words : { ...place, ...words }, record ? 'Change' : 'Add', record ? 'Remove' : undefined);
      if (!given) return null;
      const path = here('authority-records', ...pathOf(given === 'Remove' || record ? record : given));
      const match = record ? (await askWithTag('GET', path)).etag : undefined;
      if (given === 'Remove') {
        await ask('DELETE', path, { match });
        const put = () => doing(async () => (await ask('PUT', path, { body: { authorities: record.authorities } }), 'The record is there again.'));
        say(`The record of ${record.entity} is removed.`, { action: { label: 'Undo', run: put } });
        return null;
      }
      await ask('PUT', path, { body: { authorities: wordsOf(given.authorities.toUpperCase()) }, match });
      return `The record of ${record ? record.entity : given.entity} is ${record ? 'changed' : 'made'}.`;
    });
  }

  await load();
}

/** @param {any} record */
const pathOf = (record) => [record.object_type, record.profile, record.entity_kind, record.entity];

/** @param {string} text */
const wordsOf = (text) => text.split(/[\s,]+/).filter(Boolean);

/**
 * Ask for texts in a dialog.
 * @param {string} title
 * @param {Record<string, string[]>} fields label and present value by name
 * @param {string} action
 * @param {string} [other] another button, whose label is the answer then
 * @returns {Promise<any>} the texts by name, null when nothing is wanted
 */
function form(title, fields, action, other) {
  return open(title, (close) => {
    const inputs = Object.entries(fields).map(([name, [label, value]]) =>
      [label, h('input', { name, value, type: name === 'password' ? 'password' : 'text', autocomplete: 'off', required: !/^(groups|password)$/.test(name) || action === 'Add' && name === 'password' })]);
    const submit = (/** @type {Event} */ event) => {
      event.preventDefault();
      close(Object.fromEntries(new FormData(/** @type {HTMLFormElement} */ (event.target))));
    };
    return h('form', { onsubmit: submit }, inputs.map(([label, input]) => h('label', { class: 'stack tight' }, label, input)),
      h('div', { class: 'tools' },
        other && h('button', { type: 'button', class: 'destroys', onclick: () => close(other) }, `${other}…`),
        h('button', { type: 'button', onclick: () => close(null) }, 'Leave it'), h('button', { type: 'submit', class: 'main' }, action)));
  });
}
