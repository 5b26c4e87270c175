/** What the role of the user does not allow is shown as such, with the reason. */
import { h } from './dom.js';
import { may, session } from './session.js';

const NEEDED = {
  operate: () => `authority CHG on ${session.manager}`,
  administer: () => 'an administrator, member of mqm',
};

/** Why the user may not, null when the user may. @param {'operate'|'administer'} what */
export const whyNot = (what) => (may(what) ? null : `Needs ${NEEDED[what]()}.`);

/**
 * A button for a role; it is disabled for users without it, and says why.
 * @param {'operate'|'administer'} what
 * @param {Record<string, any>} properties
 * @param {string} label
 */
export function roleButton(what, properties, label) {
  const why = whyNot(what);
  return /** @type {HTMLButtonElement} */ (h('button', { type: 'button', ...properties, disabled: Boolean(why), title: why ?? properties.title }, label));
}
