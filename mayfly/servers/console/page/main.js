/** Begins the page: who is there, the frame of all pages, and which page is shown. */
import { byId, fill, h } from './dom.js';
import { help, listen } from './keyboard.js';
import * as live from './live.js';
import { fail, problemPanel, watchServer } from './notices.js';
import { go, placeOf, to } from './router.js';
import { search } from './search.js';
import { choose, forget, isStandby, may, restore, role, session, signOut } from './session.js';
import { hear, tell } from './signals.js';
import { themeButton } from './theme.js';
import { show as showSignIn } from './views/signin.js';

/** The pages in the order of the menu; a group begins where `begins` stands; a page may need a role. */
const PAGES = [
  { page: 'overview', title: 'Overview', key: 'o', load: () => import('./views/overview.js') },
  { page: 'history', title: 'Over time', key: 'h', load: () => import('./views/history.js') },
  { page: 'fleet', title: 'Fleet', key: 'f', load: () => import('./views/fleet.js') },
  { page: 'queues', title: 'Queues', key: 'q', load: () => import('./views/queues.js') },
  { page: 'schedule', title: 'Schedule', key: 's', load: () => import('./views/schedule.js') },
  { page: 'trace', title: 'Trace', key: 't', load: () => import('./views/trace.js') },
  { page: 'deadletters', title: 'Dead letters', key: 'd', load: () => import('./views/deadletters.js') },
  { page: 'expired', title: 'Expired', key: 'e', load: () => import('./views/expired.js') },
  { page: 'ledger', title: 'Ledger', key: 'l', load: () => import('./views/ledger.js') },
  { page: 'whatif', title: 'What if', key: 'w', load: () => import('./views/whatif.js') },
  { page: 'channels', title: 'Channels', key: 'c', begins: true, load: () => import('./views/channels.js') },
  { page: 'connections', title: 'Connections', key: 'n', load: () => import('./views/connections.js') },
  { page: 'claims', title: 'Consumers', key: 'k', load: () => import('./views/claims.js') },
  { page: 'objects', title: 'Objects', key: 'b', begins: true, load: () => import('./views/objects.js') },
  { page: 'mqsc', title: 'MQSC', key: 'x', load: () => import('./views/mqsc.js') },
  { page: 'users', title: 'Users', key: 'u', role: 'administer', load: () => import('./views/users.js') },
  { page: 'about', title: 'About', key: 'a', load: () => import('./views/about.js') },
];
const OTHERS = {
  queue: { title: 'Queue', of: 'queues', load: () => import('./views/queue.js') },
  messages: { title: 'Messages', of: 'queues', load: () => import('./views/messages.js') },
  message: { title: 'Message', of: 'queues', load: () => import('./views/message.js') },
  put: { title: 'Put a message', of: 'queues', load: () => import('./views/put.js') },
  find: { title: 'Found', of: 'queues', load: () => import('./views/find.js') },
};

/** @type {AbortController|null} */
let shown = null;

/** Where the menu folds, and what stands at the end of the bar goes into it. */
const narrow = matchMedia('(max-width: 899px)');

async function begin() {
  byId('bar-end').append(themeButton());
  foldMenu();
  watchServer();
  document.querySelector('.skip')?.addEventListener('click', (event) => (event.preventDefault(), byId('main').focus()));
  listen(PAGES, () => session.user !== '');
  hear('signedout', () => (forget(), enter()));
  window.addEventListener('hashchange', showPlace);
  try {
    await restore();
  } catch (error) {
    fail(error);
  }
  live.start();
  enter();
}

/** Show the page for whoever is signed in, or the sign-in. */
function enter() {
  const isIn = session.user !== '' && may('look');
  document.body.classList.toggle('signed-out', !isIn);
  byId('side').hidden = byId('bar').hidden = byId('menu').hidden = !isIn;
  placeBarEnd();
  byId('bar-end').querySelectorAll('[data-signed]').forEach((each) => each.remove());
  if (!isIn) {
    shown?.abort();
    showSignIn(byId('main'), () => (live.restart(), enter()));
    return;
  }
  fill(byId('pages'), PAGES.filter((entry) => !entry.role || may(entry.role)).map(link));
  fill(byId('bar'), managers(), search(), h('span', { class: 'pulse is-begun', id: 'pulse' }, 'connecting'));
  const out = h('button', { type: 'button', class: 'plain', 'data-signed': true, onclick: () => signOut().catch(fail) }, 'Sign out');
  const keys = h('button', { type: 'button', class: 'plain', 'data-signed': true, 'aria-label': 'Keys', onclick: () => help(PAGES) }, h('kbd', {}, '?'));
  byId('bar-end').prepend(h('span', { class: 'quiet', 'data-signed': true }, `${session.user} · ${role()}`));
  byId('bar-end').append(keys, out);
  showPlace();
}

/** On a narrow page a button shows the menu; a choice, Esc or a click elsewhere folds it again. */
function foldMenu() {
  const [button, side] = [byId('menu'), byId('side')];
  const set = (/** @type {boolean} */ isOpen) => {
    document.body.classList.toggle('menu-open', isOpen);
    button.setAttribute('aria-expanded', String(isOpen));
  };
  const isOpen = () => document.body.classList.contains('menu-open');
  button.addEventListener('click', () => {
    set(!isOpen());
    if (isOpen()) side.querySelector('a')?.focus();
  });
  document.addEventListener('click', ({ target }) => {
    const clicked = /** @type {Element} */ (target);
    if (clicked.closest('#side a, #side button') || !clicked.closest('#side, #menu')) set(false);
  });
  side.addEventListener('keydown', (event) => {
    const links = /** @type {HTMLElement[]} */ ([...side.querySelectorAll('a, button')]);
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) links[(links.indexOf(/** @type {HTMLElement} */ (document.activeElement)) + step + links.length) % links.length].focus();
    else if (event.key === 'Escape' && isOpen()) (set(false), button.focus());
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  narrow.addEventListener('change', () => (set(false), placeBarEnd()));
}

/** The end of the bar is the end of the menu where the bar has no room; nobody signed in has no menu. */
function placeBarEnd() {
  const isInMenu = narrow.matches && !byId('side').hidden;
  (isInMenu ? byId('side') : byId('bar-frame')).append(byId('bar-end'));
}

/** @param {{page: string, title: string, key: string, begins?: boolean}} entry */
function link({ page, title, key, begins }) {
  return [begins && h('hr'), h('a', { href: to([page]), 'data-page': page }, title, key && h('kbd', { 'aria-hidden': 'true' }, `g ${key}`))];
}

/** The choice of a queue manager, or the name of the only one. */
function managers() {
  const names = Object.keys(session.managers);
  if (names.length === 1) return h('strong', { class: 'manager' }, names[0]);
  const change = (/** @type {Event} */ event) => {
    choose(/** @type {HTMLSelectElement} */ (event.target).value);
    tell('manager');
    showPlace();
  };
  const options = names.map((name) => h('option', { value: name, selected: name === session.manager, disabled: isStandby(name) }, isStandby(name) ? `${name}, standby` : name));
  const select = /** @type {HTMLSelectElement} */ (h('select', { 'aria-label': 'Queue manager', onchange: change }, options));
  hear('manager', () => (select.value = session.manager));
  return select;
}

/** Show the page that the address says. */
async function showPlace() {
  if (!session.user) return;
  const place = placeOf(location.hash);
  const found = PAGES.find(({ page }) => page === place.page) ?? OTHERS[place.page];
  if (!found) {
    go(['overview']);
    return;
  }
  const manager = place.query.get('qmgr');
  if (manager && manager !== session.manager && manager in session.managers) {
    // Another server's page has led here.
    choose(manager);
    tell('manager');
  }
  shown?.abort();
  const mine = (shown = new AbortController());
  const current = found.page ?? found.of;
  for (const each of byId('side').querySelectorAll('a')) {
    if (each.dataset.page === current) each.setAttribute('aria-current', 'page');
    else each.removeAttribute('aria-current');
  }
  const main = byId('main');
  try {
    const view = await found.load();
    if (mine.signal.aborted) return;
    const isNext = main.childElementCount > 0;
    main.replaceChildren();
    main.scrollTop = 0;
    if (isNext) {
      // Keys and screen readers go on in the page, and not in the menu.
      main.focus({ preventScroll: true });
      byId('spoken').textContent = `${found.title} ${place.args.join(' ')}`;
    }
    document.title = `${[...place.args, found.title].join(' · ')} · Mayfly`;
    await view.show(main, { ...place, signal: mine.signal });
  } catch (error) {
    if (!mine.signal.aborted) main.append(problemPanel(error));
  }
}

/** The state of the live figures, in the bar. */
function follow() {
  const say = (/** @type {string} */ text, /** @type {string} */ kind) => {
    const pulse = document.getElementById('pulse');
    if (!pulse) return;
    pulse.className = `pulse ${kind}`;
    fill(pulse, text);
  };
  live.watch(() => say('live', ''), new AbortController().signal);
  hear('stale', () => say('reconnecting', 'is-lost'));
}

follow();
begin();
