// What the theme leaves to a mouse: wide code and tables can be scrolled by the keyboard, and dialogs have names.
function reach() {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  document.querySelectorAll("pre > code, .md-typeset__scrollwrap, .notebook-output").forEach((part) => {
    if (part.scrollWidth > part.clientWidth) part.setAttribute("tabindex", "0");
    else part.removeAttribute("tabindex");
  });
  document.querySelectorAll(".md-nav .md-nav").forEach((part, place) => { // a section and its first page share a name
    if (part.dataset.named) return;
    const name = part.getAttribute("aria-label") ?? part.querySelector(":scope > .md-nav__title")?.textContent ?? "";
    part.setAttribute("aria-label", `${name.trim()}, list ${place + 1}`);
    part.removeAttribute("aria-labelledby");
    part.dataset.named = "yes";
  });
  document.querySelectorAll("th:empty").forEach((part) => part.replaceWith(document.createElement("td")));
  document.querySelectorAll(".md-code__nav").forEach((part) => part.setAttribute("role", "presentation"));
}
addEventListener("DOMContentLoaded", () => {
  new ResizeObserver(reach).observe(document.body);
  new MutationObserver(reach).observe(document.body, { childList: true, subtree: true });
});
