// Reports a module that cannot be loaded: without any view the page would stay empty. Imports nothing.

document.addEventListener("error", (event) => {
  if (!(event.target instanceof HTMLScriptElement)) return;
  const message = document.createElement("p");
  message.className = "error";
  message.setAttribute("role", "alert");
  message.textContent = "The dashboard could not be loaded.";
  const retry = document.createElement("button");
  retry.type = "button";
  retry.textContent = "Reload";
  retry.addEventListener("click", () => location.reload());
  document.getElementById("main").replaceChildren(message, retry);
}, { capture: true });
