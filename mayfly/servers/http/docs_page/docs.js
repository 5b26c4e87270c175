/** Shows openapi.json: operations by resource, their parameters and schemas; sends requests. */

const CSRF = 'ibm-mq-rest-csrf-token';
const LOGIN = '/ibmmq/rest/v3/login';
/** The ETag that an answer has had last, by path: it is proposed for If-Match. */
const etags = new Map();
const main = document.getElementById('main');
const who = document.getElementById('who');

/** Make an element; a property that begins with "on" is a listener, true an empty attribute. */
function h(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === false) continue;
    if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? '' : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** Text with `code` in it. */
function marked(text) {
  return text.split('`').map((part, index) => (index % 2 ? h('code', {}, part) : part));
}

/** The schema that a reference stands for. */
function resolved(document_, schema) {
  return schema?.$ref ? document_.components.schemas[schema.$ref.split('/').pop()] : schema ?? {};
}

/** A schema in words: "whole number, 1 to 1000, usually 20". */
function words(document_, schema) {
  if (schema.$ref) return schema.$ref.split('/').pop();
  if (schema.anyOf) return schema.anyOf.map((one) => words(document_, one)).join(' or ');
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(' | ');
  if (schema.type === 'array') return `list of ${words(document_, schema.items ?? {})}`;
  if (schema.type === 'object' && schema.additionalProperties) return `object of ${words(document_, schema.additionalProperties)}`;
  const bounds = Number.isSafeInteger(schema.minimum) ? `, ${schema.minimum} to ${schema.maximum ?? '…'}` : '';
  const usual = schema.default !== undefined ? `, usually ${JSON.stringify(schema.default)}` : '';
  return (schema.type ?? 'any') + bounds + usual;
}

/** All fields of a schema, those inside others indented. */
function outline(document_, schema, indent = '', seen = []) {
  const name = schema?.$ref;
  const found = resolved(document_, schema);
  if (name && seen.includes(name)) return `${indent}…\n`;
  const inside = name ? [...seen, name] : seen;
  if (found.anyOf) return found.anyOf.map((one) => outline(document_, one, indent, inside)).join(`${indent}or\n`);
  if (found.type === 'array') return outline(document_, found.items, indent, inside);
  if (!found.properties) return `${indent}${words(document_, found)}\n`;
  return Object.entries(found.properties).map(([field, of]) => {
    const needed = found.required?.includes(field) ? '' : ' (optional)';
    const about = of.description ? ` – ${of.description.replaceAll('`', '')}` : '';
    const target = of.$ref ?? of.items?.$ref ?? of.anyOf?.find((one) => one.$ref)?.$ref;
    const deeper = target ? outline(document_, { $ref: target }, `${indent}    `, inside) : '';
    return `${indent}${field}: ${words(document_, of)}${needed}${about}\n${deeper}`;
  }).join('');
}

/** A body to begin with: the fields that are needed. */
function example(document_, schema) {
  const found = resolved(document_, schema);
  if (found.anyOf) return example(document_, found.anyOf[0]);
  if (found.enum) return found.enum[0];
  if (found.default !== undefined) return found.default;
  if (found.type === 'object' || found.properties) {
    const needed = found.required ?? [];
    return Object.fromEntries(needed.map((field) => [field, example(document_, found.properties[field])]));
  }
  return { array: [], integer: 0, number: 0, boolean: false, string: '' }[found.type] ?? null;
}

/** The fields for path, query and headers; returns the rows and a function that reads them. */
function parameters(described, path, managers) {
  const fields = described.map((one) => {
    const usual = one.name === 'qmgr' ? managers[0] ?? '' : '';
    const input = h('input', { value: usual, 'aria-label': one.name, placeholder: one.required ? '' : words({}, one.schema) });
    return { one, input };
  });
  const rows = fields.map(({ one, input }) => h('tr', {},
    h('th', { scope: 'row' }, one.name + (one.required ? ' *' : '')),
    h('td', { class: 'in' }, one.in),
    h('td', { class: 'value' }, input),
    h('td', {}, ...marked(one.description ?? ''))));
  const read = () => {
    let target = path;
    const query = new URLSearchParams();
    const headers = { accept: '*/*', [CSRF]: '' };
    for (const { one, input } of fields) {
      if (one.in === 'path') target = target.replace(`{${one.name}}`, encodeURIComponent(input.value));
      else if (input.value && one.in === 'query') query.set(one.name, input.value);
      else if (input.value) headers[one.name] = input.value;
    }
    return { target, url: query.size ? `${target}?${query}` : target, headers };
  };
  const propose = () => {
    const known = etags.get(read().target);
    for (const { one, input } of fields) {
      // What somebody has typed stays.
      if (one.name !== 'If-Match' || !known || input.value !== (input.dataset.proposed ?? '')) continue;
      input.value = input.dataset.proposed = known;
    }
  };
  return { rows, read, propose };
}

/** Send a request and show the answer: status, ETag, and body. */
async function send(method, { target, url, headers }, body, shown) {
  const started = performance.now();
  let answer;
  try {
    answer = await fetch(url, { method, headers, body, credentials: 'same-origin' });
  } catch (error) {
    shown.replaceChildren(h('p', { class: 'bad' }, `The server cannot be reached: ${error.message}`));
    return;
  }
  const text = await answer.text();
  const took = Math.round(performance.now() - started);
  const etag = answer.headers.get('etag');
  if (etag) etags.set(target, etag);
  const isJson = (answer.headers.get('content-type') ?? '').includes('json');
  const told = `${method} ${url}\n${answer.status} ${answer.statusText}, ${took} ms${etag ? `\nETag: ${etag}` : ''}`;
  shown.replaceChildren(
    h('pre', { class: answer.ok ? '' : 'bad' }, told),
    text ? h('pre', {}, isJson ? JSON.stringify(JSON.parse(text), null, 2) : text) : '');
}

/** One operation, whose inside is made when it is opened for the first time. */
function operation(document_, path, method, described, managers) {
  const role = described['x-mayfly-role'];
  const inside = h('div', { class: 'inside' });
  const made = h('details', { id: described.operationId },
    h('summary', {},
      h('span', { class: `method ${method}` }, method.toUpperCase()),
      h('span', { class: 'path' }, path),
      role ? h('span', { class: 'role', title: 'the role that it needs' }, role) : null,
      h('span', { class: 'short' }, ...marked(described.summary))),
    inside);
  made.dataset.words = `${method} ${path} ${described.summary} ${described.description}`.toLowerCase();
  const fill = () => {
    if (made.open && !inside.firstChild) inside.append(...filled(document_, path, method, described, managers));
  };
  made.addEventListener('toggle', fill);
  return made;
}

/** What stands inside an operation. */
function filled(document_, path, method, described, managers) {
  const { rows, read, propose } = parameters(described.parameters ?? [], path, managers);
  const content = Object.entries(described.requestBody?.content ?? {});
  const [mediaType, bodyType] = content.find(([type]) => type === 'text/plain') ?? content[0] ?? [];
  const isJson = mediaType === 'application/json';
  const given = bodyType && h('textarea', { rows: 6, 'aria-label': 'body', spellcheck: 'false' });
  if (given) given.value = isJson ? JSON.stringify(example(document_, bodyType.schema), null, 2) : 'Hello';
  const shown = h('div', { 'aria-live': 'polite' });
  const button = h('button', {}, 'Send');
  const form = h('form', {
    onsubmit: async (event) => {
      event.preventDefault();
      propose();
      const request = read();
      if (given) request.headers['content-type'] = isJson ? mediaType : `${mediaType};charset=utf-8`;
      button.disabled = true;
      await send(method.toUpperCase(), request, given?.value, shown);
      button.disabled = false;
    },
  },
  rows.length ? h('table', {}, h('tbody', {}, ...rows)) : null,
  given ?? null,
  h('div', { class: 'send' }, button),
  shown);
  const answers = Object.entries(described.responses).map(([status, of]) => {
    const [first] = Object.values(of.content ?? {});
    const name = first?.schema?.$ref?.split('/').pop();
    const deeper = first && name !== 'Problem' ? outline(document_, first.schema, '    ') : '';
    return `${status} – ${of.description.replaceAll('`', '')}${name ? ` (${name})` : ''}\n${deeper}`;
  });
  return [
    described.description ? h('p', { class: 'told' }, ...marked(described.description)) : null,
    form,
    isJson ? h('h3', {}, 'Body') : null,
    isJson ? h('pre', {}, outline(document_, bodyType.schema).trimEnd()) : null,
    h('h3', {}, 'Answers'),
    h('pre', {}, answers.join('').trimEnd()),
  ].filter(Boolean);
}

/** Say who is signed in, and as what. */
async function tellWho() {
  const answer = await fetch(LOGIN, { credentials: 'same-origin' });
  const form = document.getElementById('login');
  form.hidden = answer.ok;
  who.replaceChildren();
  if (!answer.ok) return;
  const [user] = (await answer.json()).user;
  const out = h('button', {
    type: 'button',
    onclick: async () => {
      await fetch(LOGIN, { method: 'DELETE', headers: { [CSRF]: '' }, credentials: 'same-origin' });
      localStorage.removeItem('mayfly.signed-in');
      await tellWho();
    },
  }, 'Sign out');
  who.append(`${user.name}: ${user.role.join(', ')} `, out);
}

document.getElementById('login').addEventListener('submit', async (event) => {
  event.preventDefault();
  const form = event.target;
  const body = JSON.stringify(Object.fromEntries(new FormData(form)));
  const headers = { 'content-type': 'application/json', [CSRF]: '' };
  const answer = await fetch(LOGIN, { method: 'POST', headers, body, credentials: 'same-origin' });
  if (answer.ok) {
    localStorage.setItem('mayfly.signed-in', form.elements.username.value);
    form.reset();
    await tellWho();
  } else {
    who.textContent = answer.status === 401 ? 'User or password are refused.' : `Status ${answer.status}.`;
  }
});

document.getElementById('find').addEventListener('input', (event) => {
  const wanted = event.target.value.toLowerCase();
  for (const one of main.querySelectorAll('details')) one.hidden = !one.dataset.words.includes(wanted);
  for (const section of main.querySelectorAll('section')) {
    section.hidden = !section.querySelector('details:not([hidden])');
  }
});

/** Read the document and show all of it. */
async function begin() {
  const [document_, probe] = await Promise.all(['../openapi.json', '/health/live'].map(async (path) => (await fetch(path)).json()));
  document.getElementById('about').replaceChildren(`Version ${document_.info.version}. `, h('a', { href: '../openapi.json' }, 'openapi.json'));
  const managers = Object.keys(probe.queue_managers);
  const nav = document.getElementById('tags');
  for (const { name, description } of document_.tags) {
    const id = `of-${name.replaceAll(' ', '-')}`;
    const section = h('section', {}, h('h2', { id }, name), h('p', {}, ...marked(description)));
    for (const [path, methods] of Object.entries(document_.paths)) {
      for (const [method, described] of Object.entries(methods)) {
        if (described.tags[0] === name) section.append(operation(document_, path, method, described, managers));
      }
    }
    main.append(section);
    nav.append(h('a', { href: `#${id}` }, name));
  }
  const asked = document.getElementById(location.hash.slice(1));
  if (asked instanceof HTMLDetailsElement) asked.open = true;
  asked?.scrollIntoView();
  // Without a mark of a login nobody is asked for, so that no 401 stands in the log of the browser.
  if (localStorage.getItem('mayfly.signed-in')) await tellWho();
}

begin();
