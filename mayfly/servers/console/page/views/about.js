/** Which Mayfly this is, and where to read on. */
import { factList, h } from '../dom.js';
import { role, session } from '../session.js';

/** @param {HTMLElement} main */
export async function show(main) {
  const states = Object.entries(session.managers).map(([name, state]) => [name, state]);
  main.append(
    h('div', { class: 'page-head' }, h('h1', {}, 'About')),
    h('section', { class: 'panel', 'aria-label': 'Server' }, factList(
      ['User', `${session.user}, ${role()}`],
      ...states.map(([name, state]) => /** @type {[string, any]} */ ([`Queue manager ${name}`, state])),
      ['Address', location.origin],
    )),
  );
}
