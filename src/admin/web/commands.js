// Commands of the page: the texts that a conversation keeps, and a compaction with its next request.

import { html, useState } from '/web/vendor/preact.js';
import { command, loadDetails } from '/web/state.js';

// Gives commands, one at a time: [give, isBusy, outcome].
export function useCommand() {
  const [state, set] = useState({});
  const give = async (base, order, words) => {
    set({ isBusy: true });
    try {
      await command(base, order);
      set({ words });
      return true;
    } catch (error) {
      set({ words: error.message, isBad: true });
      return false;
    }
  };
  const outcome = html`<p role="status" class=${state.isBad ? 'bad' : 'dim'}>${state.words ?? ''}</p>`;
  return [give, Boolean(state.isBusy), outcome];
}

export function Keep({ one, kept }) {
  const [text, write] = useState('');
  const [give, isBusy, outcome] = useCommand();
  const order = async (name, words, value = text) => {
    const isDone = await give(one.base, { command: name, conversation: one.id, text: value }, words);
    if (isDone && value === text) write('');
    loadDetails(one);
  };
  const isEmpty = text.trim() === '';
  return html`
    <p>A text that you keep stands in each summary of this conversation, from the next one on.</p>
    <ul class="kept">${kept.map((it) => html`<li key=${it.text}><q>${it.text}</q> ${it.by_agent && html`<span class="dim">wished by the agent</span>`}
      <button type="button" disabled=${isBusy} aria-label=${'Take back: ' + it.text} onClick=${() => order('take-back', 'Taken back. Summaries that were sent still hold it.', it.text)}>Take back</button></li>`)}</ul>
    <form class="command" onSubmit=${(event) => { event.preventDefault(); order('keep', 'Kept.'); }}>
      <label>Text to keep<textarea rows="3" maxlength="4000" value=${text} onInput=${(event) => write(event.target.value)}></textarea></label>
      <button type="submit" disabled=${isBusy || isEmpty}>Keep</button>
      <button type="button" disabled=${isBusy} onClick=${() => order('compact-again', '')}>${isEmpty ? 'Compact again' : 'Compact again and keep this'}</button>
    </form>
    ${one.compacts_next && html`<p>Its next request will be compacted: the model reads it anew once.</p>`}
    ${outcome}`;
}
