// What a reader sees of each SVG of the page: every text, where it stands and on what, and every
// place where a line runs through a text. Left as JSON in <pre id="found">.
const drawn = (shape) => getComputedStyle(shape).fill !== "none";
const within = (box, x, y) => box.left <= x && x <= box.right && box.top <= y && y <= box.bottom;
const after = (one, other) => one.compareDocumentPosition(other) & Node.DOCUMENT_POSITION_FOLLOWING;
const plain = (box) => ({ left: box.left, top: box.top, right: box.right, bottom: box.bottom });

function read(svg) {
  const rects = [...svg.querySelectorAll("rect")].filter(drawn).map((shape) => ({
    shape, box: shape.getBoundingClientRect(), fill: getComputedStyle(shape).fill,
  }));
  const texts = [...svg.querySelectorAll("text")].map((shape) => {
    const box = shape.getBoundingClientRect();
    // It belongs where it is anchored, however long it is.
    const anchors = { start: box.left + 2, middle: (box.left + box.right) / 2, end: box.right - 2 };
    const x = anchors[shape.getAttribute("text-anchor") || "start"], y = (box.top + box.bottom) / 2;
    const below = rects.filter((rect) => after(rect.shape, shape) && within(rect.box, x, y)).pop();
    return { shape, below, text: {
      content: shape.textContent, box: plain(box), fill: getComputedStyle(shape).fill,
      ground: below.fill, within: plain(below.box),
    } };
  });
  return { width: svg.width.baseVal.value, height: svg.height.baseVal.value,
           page: plain(svg.getBoundingClientRect()), texts: texts.map((one) => one.text),
           crossed: [...svg.querySelectorAll("path.line")].flatMap((line) => crossed(line, texts)) };
}

// Contents of the texts that a line runs through, unless a rectangle drawn later hides it there.
function crossed(line, texts) {
  const matrix = line.getScreenCTM(), length = line.getTotalLength(), found = new Set();
  const box = line.getBoundingClientRect();
  const near = texts.filter(({ text }) => text.box.left < box.right + 2 && box.left - 2 < text.box.right
    && text.box.top < box.bottom + 2 && box.top - 2 < text.box.bottom);
  for (let at = 0; near.length && at <= length; at += 3) {
    const point = line.getPointAtLength(at).matrixTransform(matrix);
    for (const { text, below } of near) {
      // A line of text is higher than its letters.
      const letters = { ...text.box, top: text.box.top + 3, bottom: text.box.bottom - 3 };
      const hidden = after(line, below.shape) && within(below.box, point.x, point.y);
      if (within(letters, point.x, point.y) && !hidden) found.add(text.content);
    }
  }
  return [...found];
}

const found = {};
for (const svg of document.querySelectorAll("svg")) found[svg.parentElement.id] = read(svg);
const pre = document.createElement("pre");
pre.id = "found";
pre.textContent = JSON.stringify(found);
document.body.append(pre);
