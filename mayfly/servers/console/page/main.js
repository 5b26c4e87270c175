/** Begins the page: who is there, the frame of all pages, and which page is shown. */
import { byId, fill, h } from './dom.js';
import { help, listen } from './keyboard.js';
import * as live from './live.js';
import { fail, problemPanel, watchServer } from './notices.js';
import { go, placeOf, to } from './router.js';
import { search } from './search.js';
import { choose, forget, may, restore, role, session, signOut } from './session.js';
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
  { page: 'users', title: 'Users', key: 'u', role: 'administer', load: () => import('./views/users.js') },
  { page: 'about', title: 'About', key: 'a', load: () => import('./views/about.js') },
];
const OTHERS = { queue: { title: 'Queue', of: 'queues', load: () => import('./views/queue.js') } };

/** @type {AbortController|null} */
let shown = null;

async function begin() {
  byId('bar-end').append(themeButton());
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
  byId('side').hidden = byId('bar').hidden = !isIn;
  byId('bar-end').querySelectorAll('[data-signed]').forEach((each) => each.remove());
  if (!isIn) {
    shown?.abort();
    showSignIn(byId('main'), () => (live.restart(), enter()));
    return;
  }
  fill(byId('side'), PAGES.filter((entry) => !entry.role || may(entry.role)).map(link));
  fill(byId('bar'), managers(), search(), h('span', { class: 'pulse is-begun', id: 'pulse' }, 'connecting'));
  const out = h('button', { type: 'button', class: 'plain', 'data-signed': true, onclick: () => signOut().catch(fail) }, 'Sign out');
  const keys = h('button', { type: 'button', class: 'plain', 'data-signed': true, 'aria-label': 'Keys', onclick: () => help(PAGES) }, h('kbd', {}, '?'));
  byId('bar-end').prepend(h('span', { class: 'quiet', 'data-signed': true }, `${session.user} · ${role()}`));
  byId('bar-end').append(keys, out);
  showPlace();
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
  const options = names.map((name) => h('option', { selected: name === session.manager }, name));
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
