// Measures each SVG of the page: the position and the background of every text, and every text that a line
// crosses. Writes the result as JSON to <pre id="output">.
const drawn = (shape) => getComputedStyle(shape).fill !== "none";
const within = (box, x, y) => box.left <= x && x <= box.right && box.top <= y && y <= box.bottom;
const after = (first, second) => first.compareDocumentPosition(second) & Node.DOCUMENT_POSITION_FOLLOWING;
const plain = (box) => ({ left: box.left, top: box.top, right: box.right, bottom: box.bottom });

function read(svg) {
  const rects = [...svg.querySelectorAll("rect")].filter(drawn).map((shape) => ({
    shape, box: shape.getBoundingClientRect(), fill: getComputedStyle(shape).fill,
  }));
  const texts = [...svg.querySelectorAll("text")].map((shape) => {
    const box = shape.getBoundingClientRect();
    // A text belongs to the rectangle at its anchor, regardless of its length.
    const anchors = { start: box.left + 2, middle: (box.left + box.right) / 2, end: box.right - 2 };
    const x = anchors[shape.getAttribute("text-anchor") || "start"], y = (box.top + box.bottom) / 2;
    const below = rects.filter((rect) => after(rect.shape, shape) && within(rect.box, x, y)).pop();
    return { shape, below, text: {
      content: shape.textContent, box: plain(box), fill: getComputedStyle(shape).fill,
      ground: below.fill, within: plain(below.box),
    } };
  });
  return { width: svg.width.baseVal.value, height: svg.height.baseVal.value,
           page: plain(svg.getBoundingClientRect()), texts: texts.map((measured) => measured.text),
           crossed: [...svg.querySelectorAll("path.line")].flatMap((line) => crossed(line, texts)) };
}

// Returns the contents of the texts that a line crosses, unless a rectangle that is drawn later hides the line there.
function crossed(line, texts) {
  const matrix = line.getScreenCTM(), length = line.getTotalLength(), contents = new Set();
  const box = line.getBoundingClientRect();
  const near = texts.filter(({ text }) => text.box.left < box.right + 2 && box.left - 2 < text.box.right
    && text.box.top < box.bottom + 2 && box.top - 2 < text.box.bottom);
  for (let at = 0; near.length && at <= length; at += 3) {
    const point = line.getPointAtLength(at).matrixTransform(matrix);
    for (const { text, below } of near) {
      // A line of text is higher than its letters.
      const letters = { ...text.box, top: text.box.top + 3, bottom: text.box.bottom - 3 };
      const hidden = after(line, below.shape) && within(below.box, point.x, point.y);
      if (within(letters, point.x, point.y) && !hidden) contents.add(text.content);
    }
  }
  return [...contents];
}

const pictures = {};
for (const svg of document.querySelectorAll("svg")) pictures[svg.parentElement.id] = read(svg);
const pre = document.createElement("pre");
pre.id = "output";
pre.textContent = JSON.stringify(pictures);
document.body.append(pre);
