/* Draws the pictures of this page; their tables are folded on the screen, and open on paper. */
(function () {
  "use strict";
  const tables = [...document.querySelectorAll("figure details")];
  tables.forEach((each) => { each.open = false; });
  ampedPictures.drawAll(document);
  window.addEventListener("beforeprint", () => {
    tables.forEach((each) => { each.open = true; });
    document.documentElement.classList.add("paper");
    ampedPictures.again();
  });
  window.addEventListener("afterprint", () => {
    tables.forEach((each) => { each.open = false; });
    document.documentElement.classList.remove("paper");
    ampedPictures.again();
  });
})();
