// The layered drawing: which row each node stands in, in which order, and where.
// Rows go down the page. An edge over several rows passes through points of its own, so that it goes around nodes.

const ROW_GAP = 74;
const COLUMN_GAP = 30;
const SWEEPS = 12;

function layOut(nodes, edges) {
  const cells = new Map(nodes.map((node) => [node.key, { ...node, up: [], down: [] }]));
  const rows = rowsOf(nodes, edges);
  for (const node of nodes) cells.get(node.key).row = rows.get(node.key);
  const routes = edges.map((edge) => route(edge, cells));
  const table = [];
  for (const cell of cells.values()) (table[cell.row] ??= []).push(cell);
  for (const row of table) row.sort((a, b) => a.start - b.start || a.time - b.time);
  settleOrder(table);
  settlePlaces(table);
  const height = Math.max(...nodes.map((node) => node.height));
  for (const cell of cells.values()) cell.y = cell.row * (height + ROW_GAP) + height / 2;
  return { cells, routes, height };
}

function rowsOf(nodes, edges) {
  const rows = new Map();
  const into = new Map(nodes.map((node) => [node.key, []]));
  const out = new Map(nodes.map((node) => [node.key, []]));
  for (const edge of edges) {
    into.get(edge.target).push(edge.source);
    out.get(edge.source).push(edge.target);
  }
  const inTime = [...nodes].sort((a, b) => a.time - b.time);
  for (const { key } of inTime) rows.set(key, Math.max(0, ...into.get(key).map((source) => rows.get(source) + 1)));
  for (const { key } of inTime.reverse()) {
    // what comes from outside stands right above what first uses it
    const uses = out.get(key).map((target) => rows.get(target));
    if (!into.get(key).length && uses.length) rows.set(key, Math.min(...uses) - 1);
  }
  // the model's inputs stand one row higher, outside the frame of the module that takes them
  const framed = new Set(nodes.filter((node) => node.path.length).map((node) => node.key));
  for (const { key, node } of nodes) {
    if (key[0] === "n" && node.op === "input" && out.get(key).some((target) => framed.has(target))) rows.set(key, rows.get(key) - 1);
  }
  const top = Math.min(...rows.values());
  for (const [key, row] of rows) rows.set(key, row - top);
  return rows;
}

function route(edge, cells) {
  const [source, target] = [cells.get(edge.source), cells.get(edge.target)];
  const points = [source];
  for (let row = source.row + 1; row < target.row; row++) {
    const key = `${edge.key}@${row}`;
    const bend = { key, row, width: 12, height: 0, bend: true, time: target.time, start: source.start, up: [], down: [] };
    cells.set(key, bend);
    points.push(bend);
  }
  points.push(target);
  for (let i = 1; i < points.length; i++) {
    points[i - 1].down.push(points[i]);
    points[i].up.push(points[i - 1]);
  }
  return { edge, points };
}

function settleOrder(table) {
  const number = (row) => row.forEach((cell, i) => (cell.order = i));
  table.forEach(number);
  const mean = (cells) => cells.reduce((sum, cell) => sum + (cell.order + 0.5) / cell.rowLength, 0) / cells.length;
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const down = sweep % 2 === 0;
    for (const row of table) for (const cell of row) cell.rowLength = row.length;
    for (const row of down ? table : [...table].reverse()) {
      for (const cell of row) {
        const near = down ? cell.up : cell.down;
        const far = down ? cell.down : cell.up;
        cell.wish = near.length ? mean(near) : far.length ? mean(far) : (cell.order + 0.5) / row.length;
      }
      sortByModule(row, 0);
      number(row);
    }
  }
}

// By the wishes, but what belongs to one open module stays together, and so on inwards.
function sortByModule(row, depth) {
  const clusters = [...Map.groupBy(row, (cell) => cell.path?.[depth] ?? cell.key).values()];
  for (const cluster of clusters) {
    cluster.wish = cluster.reduce((sum, cell) => sum + cell.wish, 0) / cluster.length;
    if (cluster.length > 1) sortByModule(cluster, depth + 1);
  }
  clusters.sort((a, b) => a.wish - b.wish || a[0].order - b[0].order);
  row.splice(0, row.length, ...clusters.flat());
}

function settlePlaces(table) {
  for (const row of table) {
    let x = 0;
    for (const cell of row) {
      cell.x = x + cell.width / 2;
      x += cell.width + COLUMN_GAP;
    }
    for (const cell of row) cell.x -= x / 2;
  }
  for (let sweep = 0; sweep < 2 * SWEEPS; sweep++) {
    const down = sweep % 2 === 0;
    for (const row of down ? table : [...table].reverse()) {
      for (const cell of row) {
        const near = down ? cell.up : cell.down;
        const other = down ? cell.down : cell.up;
        const wishes = near.length ? near : other;
        let [sum, weight] = [0, 0];
        for (const friend of wishes) {
          const w = friend.bend && cell.bend ? 8 : friend.outside ? 0.2 : 1;
          sum += w * friend.x;
          weight += w;
        }
        cell.wish = weight ? sum / weight : cell.x;
        cell.weight = cell.bend ? 4 : cell.outside ? 0.3 : 1;
      }
      spread(row);
    }
  }
}

// The positions nearest to the wishes that keep the order and the distances: neighbors that collide move as one block.
function spread(row) {
  const blocks = [];
  let offset = 0;
  row.forEach((cell, i) => {
    if (i) offset += (row[i - 1].width + cell.width) / 2 + COLUMN_GAP;
    blocks.push({ cells: [[cell, offset]], sum: cell.weight * (cell.wish - offset), weight: cell.weight });
    while (blocks.length > 1) {
      const [a, b] = blocks.slice(-2);
      if (a.sum / a.weight <= b.sum / b.weight) break;
      blocks.splice(-2, 2, { cells: a.cells.concat(b.cells), sum: a.sum + b.sum, weight: a.weight + b.weight });
    }
  });
  for (const block of blocks) for (const [cell, shift] of block.cells) cell.x = block.sum / block.weight + shift;
}
