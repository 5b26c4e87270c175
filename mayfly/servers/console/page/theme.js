/** Dark, light, or as the system has it; the choice is remembered. */
import { h } from './dom.js';
import { tell } from './signals.js';

const KEY = 'mayfly.theme';
const system = matchMedia('(prefers-color-scheme: dark)');
system.addEventListener('change', () => tell('theme'));

/** Is the page dark now? */
export const isDark = () => (document.documentElement.dataset.theme ?? (system.matches ? 'dark' : 'light')) === 'dark';

/** The button that changes the colours. */
export function themeButton() {
  const button = h('button', { class: 'plain', type: 'button', onclick: change });
  function say() {
    button.textContent = isDark() ? 'Light' : 'Dark';
    button.setAttribute('aria-label', isDark() ? 'Light colours' : 'Dark colours');
  }
  function change() {
    const wanted = isDark() ? 'light' : 'dark';
    document.documentElement.dataset.theme = wanted;
    localStorage.setItem(KEY, wanted);
    say();
    tell('theme');
  }
  system.addEventListener('change', say);
  say();
  return button;
}
