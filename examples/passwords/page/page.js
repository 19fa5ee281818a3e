// SPDX-License-Identifier: MIT
import { Known } from './known.js';

const settings = new URLSearchParams(location.search);
// Between two requests for a new list.  A browser does not wait at all for more than 2**31 - 1 ms.
const every = Number(settings.get('every'));
const seconds = every > 0 ? Math.min(every, 2 ** 31 / 1000 - 1) : 3600;
const [password, answer, state] = ['password', 'answer', 'state'].map((id) => document.getElementById(id));
const known = new Known('known.tamis', { maxBytes: 256 * 2 ** 20 });

let lists = 0; // how many were loaded
async function refresh() {
  try {
    if (await known.refresh())
      lists++;
    state.dataset.failed = '';
  } catch (error) {
    state.dataset.failed = String(error);
  }
  state.dataset.lists = lists;
  state.textContent = known.isLoaded ? 'No password leaves this page.' : 'The list could not be loaded.';
  password.disabled = !known.isLoaded;
  setTimeout(refresh, seconds * 1000);
}

password.addEventListener('input', () => {
  if (!password.value)
    answer.textContent = '';
  else
    answer.textContent = known.has(password.value) ? 'Others know this password. Take another one.' : 'Not in the list.';
});
globalThis.known = known; // for the console, and for scenario.py
refresh();
