// Loads the dashboard's script, again after a growing delay where that fails. Part of the page itself,
// so that nothing else has to arrive before something can be said.

(() => {
  const MIN_DELAY_MS = 250;
  const MAX_DELAY_MS = 15_000;
  const { src } = document.currentScript.dataset;
  const state = document.getElementById("loading");
  const [text, reload] = state.childNodes;
  let delay = MIN_DELAY_MS;
  let timer;
  let isLoading = false;

  function load() {
    if (isLoading || !state.isConnected) return;
    clearTimeout(timer);
    isLoading = true;
    const script = document.createElement("script");
    script.src = src;
    script.onload = () => {
      if (state.isConnected) text.data = "The dashboard could not be started. A newer browser may run it. ";
    };
    script.onerror = () => {
      script.remove();
      isLoading = false;
      text.data = "The dashboard could not be loaded; trying again. ";
      timer = setTimeout(load, delay);
      delay = Math.min(2 * delay, MAX_DELAY_MS);
    };
    document.head.append(script);
  }

  reload.addEventListener("click", (event) => {
    event.preventDefault();
    location.reload();
  });
  window.addEventListener("online", load);
  load();
})();
