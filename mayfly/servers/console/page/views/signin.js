/** Signing in by IBM's login resource. */
import { Problem } from '../api.js';
import { h } from '../dom.js';
import { may, session, signIn } from '../session.js';

/** @param {HTMLElement} main @param {() => void} entered */
export function show(main, entered) {
  const user = h('input', { name: 'username', autocomplete: 'username', required: true, autocapitalize: 'none', spellcheck: 'false' });
  const password = h('input', { name: 'password', type: 'password', autocomplete: 'current-password', required: true });
  const error = h('p', { class: 'error', role: 'alert' });
  const button = /** @type {HTMLButtonElement} */ (h('button', { class: 'main', type: 'submit' }, 'Sign in'));

  /** @param {Event} event */
  async function submit(event) {
    event.preventDefault();
    button.disabled = true;
    error.textContent = '';
    try {
      await signIn(/** @type {HTMLInputElement} */ (user).value, /** @type {HTMLInputElement} */ (password).value);
      if (may('look')) entered();
      else error.textContent = `${session.user} may put and get messages, and may not look at the queue manager: authority DSP on it is missing.`;
    } catch (problem) {
      error.textContent = problem instanceof Problem ? problem.said : 'The server does not answer.';
    } finally {
      button.disabled = false;
    }
  }

  document.title = 'Sign in · Mayfly';
  main.replaceChildren(
    h('form', { class: 'signin panel', onsubmit: submit }, h('h1', {}, 'Sign in'),
      h('label', {}, 'User', user), h('label', {}, 'Password', password), error, button),
  );
  user.focus();
}
