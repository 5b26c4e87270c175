/** Who is signed in, with which roles, and the queue manager that is looked at. */
import { ask, ofManager, Problem, rest } from './api.js';
import { tell } from './signals.js';

const MARK = 'mayfly.signed-in';
const MANAGER = 'mayfly.manager';
/** Names of roles as GET login tells them, and what each may do. */
const MAY = {
  MQWebAdmin: ['look', 'operate', 'administer'],
  MayflyOperator: ['look', 'operate'],
  MQWebAdminRO: ['look'],
};
const WORDS = { MQWebAdmin: 'administrator', MayflyOperator: 'operator', MQWebAdminRO: 'looks only', MQWebUser: 'program' };

/** @type {{user: string, roles: string[], manager: string, managers: Record<string, string>}} */
export const session = { user: '', roles: [], manager: '', managers: {} };

/** May the user look, operate, administer? @param {'look'|'operate'|'administer'} what */
export const may = (what) => session.roles.some((role) => (MAY[role] ?? []).includes(what));

/** The role as a word, the highest. */
export const role = () => WORDS[Object.keys(WORDS).find((each) => session.roles.includes(each)) ?? ''] ?? '';

/** The path of a resource of the queue manager that is looked at. @param {...string} parts */
export const here = (...parts) => ofManager(session.manager, ...parts);

/**
 * Take up a login of before; false when there is none. Without a mark of one the server is not
 * asked, unless TLS may have brought a certificate.
 */
export async function restore() {
  if (!localStorage.getItem(MARK) && location.protocol !== 'https:') return false;
  try {
    await enter();
    return true;
  } catch (error) {
    if (error instanceof Problem && error.status === 401) return false;
    throw error;
  }
}

/** Log in by IBM's resource. @param {string} username @param {string} password */
export async function signIn(username, password) {
  await ask('POST', rest('/login'), { body: { username, password }, quietly: true });
  localStorage.setItem(MARK, username);
  await enter();
}

/** End the login, also when the server knows it no more. */
export async function signOut() {
  forget();
  try {
    await ask('DELETE', rest('/login'), { quietly: true });
  } finally {
    tell('signedout');
  }
}

/** Forget who was signed in; the cookie is the server's. */
export function forget() {
  localStorage.removeItem(MARK);
  session.user = '';
  session.roles = [];
}

/** Ask who is signed in and which queue managers are there. */
async function enter() {
  const [told, probe] = await Promise.all([ask('GET', rest('/login'), { quietly: true }), ask('GET', '/health/live')]);
  const [user] = told.user;
  session.user = user.name;
  session.roles = user.role;
  session.managers = probe.queue_managers;
  choose(localStorage.getItem(MANAGER) ?? '');
}

/** Another server owns it; this one follows. @param {string} name */
export const isStandby = (name) => session.managers[name] === 'standby';

/** Look at a queue manager, at the first that is no standby for another name. @param {string} name */
export function choose(name) {
  const names = Object.keys(session.managers);
  const isSeen = (/** @type {string} */ each) => names.includes(each) && !isStandby(each);
  session.manager = isSeen(name) ? name : (names.find(isSeen) ?? names[0]);
  localStorage.setItem(MANAGER, session.manager);
}
