/* Draws the pictures of a page with ECharts. A picture is plain data: columns with their scales, rows, and what is drawn
   along which axis. Colors are those of the style sheet, so that light, dark and paper have their own. */
(function () {
  "use strict";
  const SYMBOLS = ["circle", "rect", "triangle", "diamond", "roundRect", "pin"];
  const KINDS = {
    compute: "compute", recomputation: "recomputation", communication: "communication", idle: "idle",
    forward: "compute", backward: "recomputation", "input gradients": "recomputation", "weight gradients": "hue-4",
    "gradients and weights": "communication", optimizer: "idle",
  };

  function color(name) {
    return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  }
  function colorOf(kind, place) {
    return color(KINDS[kind] || "hue-" + (place % 6));
  }
  function digits(number) {
    if (number === 0) return "0";
    const size = Math.abs(number);
    if (size >= 1e6 || size < 1e-3) return number.toExponential(2);
    return Number(number.toPrecision(4)).toLocaleString("en-US", { maximumFractionDigits: 6 });
  }
  function columnOf(data, name) {
    const place = data.columns.findIndex((column) => column.name === name);
    const column = data.columns[place];
    const head = column.head + (column.unit ? " (" + column.unit + ")" : "");
    return { place, head, size: column.size, of: (row) => row[place] };
  }
  function scaled(column, row) {
    const value = column.of(row);
    return value === null ? null : value / column.size;
  }
  /* All that a row says, as text that is never read as HTML. */
  function told(data, row) {
    const box = document.createElement("div");
    data.columns.forEach((column, place) => {
      if (row[place] === null) return;
      const line = document.createElement("div");
      const value = typeof row[place] === "number" ? digits(row[place] / column.size) : String(row[place]);
      line.textContent = column.head + ": " + value + (column.unit ? " " + column.unit : "");
      box.appendChild(line);
    });
    box.style.maxWidth = "22rem";
    box.style.whiteSpace = "normal";
    return box;
  }
  /* How many lines a legend takes in a width; its words are about seven pixels a letter. */
  function lines(series, width) {
    const wide = series.filter((each) => each.name).reduce((sum, each) => sum + 45 + 7 * String(each.name).length, 0);
    return Math.max(1, Math.ceil(1.15 * wide / width));
  }
  function shared(data, below) {
    const text = { color: color("ink") };
    return {
      animation: false,
      textStyle: { fontFamily: getComputedStyle(document.body).fontFamily },
      aria: { enabled: true, label: { description: data.title + ". " + data.sentence }, decal: { show: data.kind !== "points" } },
      legend: { bottom: 0, textStyle: text },
      grid: { left: 8, right: 16, top: 24, bottom: 18 + 22 * below, outerBoundsMode: "same", outerBoundsContain: "all" },
      tooltip: {
        trigger: "item", confine: true, backgroundColor: color("paper"), borderColor: color("line"), textStyle: text,
        formatter: (point) => (point.data && point.data.row ? told(data, point.data.row) : document.createTextNode("")),
      },
    };
  }
  function axis(more) {
    return Object.assign({
      axisLine: { show: true, lineStyle: { color: color("pale") } },
      axisLabel: Object.assign({ color: color("ink"), hideOverlap: true }, more.axisLabel),
      splitLine: { show: more.type !== "category", lineStyle: { color: color("line"), opacity: 0.6 } },
      nameTextStyle: { color: color("ink") },
      nameLocation: "middle",
    }, Object.fromEntries(Object.entries(more).filter(([name]) => name !== "axisLabel")));
  }
  function numbers(head, more) {
    return axis(Object.assign({ type: "value", name: head, nameGap: 28, axisLabel: { formatter: digits } }, more));
  }
  function categories(names, more) {
    const width = Math.min(200, Math.max(90, window.innerWidth / 4));
    return axis(Object.assign({ type: "category", data: names, axisLabel: { width, overflow: "break", lineHeight: 13 } }, more));
  }

  /* What stands below a bar that floats, so that it begins where the bar before it ends: a bar that nobody sees. */
  function below(data, start, value) {
    const hidden = { color: "transparent", borderColor: "transparent", decal: { symbol: "none" } };
    const from = (row) => scaled(start, row) + Math.min(0, scaled(value, row));
    return { type: "bar", stack: "all", barMaxWidth: 26, silent: true, itemStyle: hidden, data: data.rows.map(from) };
  }
  function waterfall(data) {
    const along = columnOf(data, data.along), value = columnOf(data, data.values[0]), kind = columnOf(data, data.kind_of);
    const start = columnOf(data, data.from), kinds = [...new Set(data.rows.map(kind.of))];
    const series = kinds.map((name, place) => ({
      name, type: "bar", stack: "all", barMaxWidth: 26, itemStyle: { color: colorOf(name, place), borderColor: color("edge") },
      data: data.rows.map((row) => (kind.of(row) === name ? { value: Math.abs(scaled(value, row)), row } : null)),
      label: { show: true, position: "right", color: color("ink"), formatter: (point) => digits(scaled(value, point.data.row)) },
    }));
    const ends = data.rows.flatMap((row) => [scaled(start, row), scaled(start, row) + scaled(value, row)]);
    return {
      series: [below(data, start, value), ...series],
      xAxis: numbers(value.head, { min: 0, max: 1.18 * Math.max(...ends), axisLabel: { formatter: digits, showMaxLabel: false } }),
      yAxis: categories(data.rows.map(along.of), { inverse: true }),
    };
  }

  /* Horizontal bars, one for each row, with a color for each kind; with a column `from`, the bars of a waterfall. */
  function bars(data) {
    if (data.from) return waterfall(data);
    const along = columnOf(data, data.along), value = columnOf(data, data.values[0]), kind = columnOf(data, data.kind_of);
    const kinds = [...new Set(data.rows.map(kind.of))];
    const series = kinds.map((name, place) => ({
      name, type: "bar", stack: "all", barMaxWidth: 26, itemStyle: { color: colorOf(name, place), borderColor: color("edge") },
      data: data.rows.map((row) => (kind.of(row) === name ? { value: scaled(value, row), row } : null)),
      label: { show: true, position: "right", color: color("ink"), formatter: (point) => digits(point.value) },
    }));
    series.forEach((each) => each.data.forEach((point) => {
      if (point && point.value < 0) point.label = { position: "left" };
    }));
    const low = Math.min(0, ...data.rows.map((row) => scaled(value, row)));
    const high = Math.max(0, ...data.rows.map((row) => scaled(value, row)));
    const room = 0.18 * (high - low);
    return {
      series,
      xAxis: numbers(value.head, { min: low < 0 ? low - room : 0, max: high > 0 ? high + room : 0, axisLabel: { formatter: digits, showMinLabel: low === 0, showMaxLabel: false } }),
      yAxis: categories(data.rows.map(along.of), { inverse: true }),
    };
  }

  /* Bars that are stacked of several columns, with a line for a limit. */
  function stacked(data) {
    const along = columnOf(data, data.along), every = data.values.map((name) => columnOf(data, name));
    const series = every.map((column, place) => ({
      name: data.columns[column.place].head, type: "bar", stack: "all", barMaxWidth: 60,
      itemStyle: { color: colorOf((data.kinds || {})[data.values[place]], place), borderColor: color("edge") },
      data: data.rows.map((row) => ({ value: scaled(column, row), row })),
    }));
    const size = every[0].size;
    const most = Math.max(...data.rows.map((row) => every.reduce((sum, column) => sum + scaled(column, row), 0)));
    const unit = data.columns[every[0].place].unit, names = data.rows.map((row) => String(along.of(row)));
    if (data.limit) {
      series[0].markLine = {
        silent: true, symbol: "none", lineStyle: { color: color("ink"), type: "dashed", width: 2 },
        label: { formatter: data.limit.head, position: "insideEndBottom", color: color("ink") },
        data: [{ yAxis: data.limit.value / size }],
      };
    }
    const top = Math.max(most, data.limit ? data.limit.value / size : 0) * 1.1;
    const values = numbers(data.head + " (" + unit + ")", { max: top, nameGap: 44, axisLabel: { formatter: digits, showMaxLabel: false } });
    return data.lying
      ? { series, yAxis: categories(names, { inverse: true }), xAxis: Object.assign(values, { nameGap: 28 }) }
      : { series, xAxis: axis({ type: "category", data: names, name: data.columns[along.place].head, nameGap: 28 }), yAxis: values };
  }

  /* What each stage does, and when. */
  function spans(data) {
    const stage = columnOf(data, data.rows_of), kind = columnOf(data, "kind");
    const start = columnOf(data, "start"), end = columnOf(data, "end");
    const stages = [...new Set(data.rows.map(stage.of))];
    function drawn(_, api) {
      const from = api.coord([api.value(0), api.value(2)]), to = api.coord([api.value(1), api.value(2)]);
      const height = api.size([0, 1])[1] * 0.74;
      const shape = { x: from[0], y: from[1] - height / 2, width: Math.max(to[0] - from[0], 0.5), height };
      return { type: "rect", shape, style: Object.assign(api.style(), { lineWidth: shape.width > 3 ? 0.7 : 0 }) };
    }
    const kinds = [...new Set(data.rows.map(kind.of))];
    const series = kinds.map((name, place) => ({
      name, type: "custom", renderItem: drawn, encode: { x: [0, 1], y: 2 },
      itemStyle: { color: colorOf(name, place), borderColor: color("edge") },
      data: data.rows.filter((row) => kind.of(row) === name)
        .map((row) => ({ value: [scaled(start, row), scaled(end, row), stages.indexOf(stage.of(row))], row })),
    }));
    return {
      series,
      xAxis: numbers("time" + start.head.replace(/^[^(]*/, " "), { min: 0, max: Math.max(...data.rows.map((row) => scaled(end, row))), axisLabel: { formatter: digits, showMaxLabel: false } }),
      yAxis: categories(stages.map(String), { inverse: true, name: "stage", nameGap: 34 }),
    };
  }

  /* Points of two columns; joined by a line, or below a roof. */
  function points(data) {
    const x = columnOf(data, data.x), y = columnOf(data, data.y);
    const group = data.group ? columnOf(data, data.group) : null;
    const groups = group ? [...new Set(data.rows.map(group.of))] : [null];
    const series = groups.map((name, place) => ({
      name: name === null ? y.head : typeof name === "number" ? digits(name) + " " + group.head : name, type: data.line ? "line" : "scatter",
      symbol: SYMBOLS[place % SYMBOLS.length], symbolSize: 11,
      lineStyle: { color: color("hue-0"), width: 2 }, itemStyle: { color: color("hue-" + (place % 6)), borderColor: color("ink") },
      data: data.rows.filter((row) => !group || group.of(row) === name)
        .map((row) => ({ value: [scaled(x, row), scaled(y, row)], row })),
    }));
    if (data.roof) series.push(roof(data, x, y));
    function kind(name) {
      return (data.logarithmic || []).includes(name) ? "log" : "value";
    }
    const free = { scale: true };
    return {
      series,
      xAxis: numbers(x.head, Object.assign({ type: kind("x") }, free, kind("x") === "log" ? bounds(series, 0) : {})),
      yAxis: numbers(y.head, Object.assign({ type: kind("y"), nameGap: 52 }, free, kind("y") === "log" ? bounds(series, 1) : {})),
    };
  }
  /* Room around the points of a logarithmic axis. */
  const NARROW = 100;
  function bounds(series, place) {
    const values = series.flatMap((each) => each.data.map((point) => point.value[place]));
    const low = Math.min(...values), high = Math.max(...values);
    const axisLabel = { formatter: digits, showMinLabel: false, showMaxLabel: false, hideOverlap: true };
    return { min: low / 1.5, max: high * 1.5, logBase: high / low < NARROW ? 2 : 10, axisLabel };
  }
  /* What the bandwidth allows, and the peak beyond the ridge. */
  function roof(data, x, y) {
    const ridge = data.roof.peak / data.roof.bandwidth, all = data.rows.map(x.of);
    const ends = [Math.min(...all) / 1.3, ridge, Math.max(ridge * 2, ...all) * 1.3];
    return {
      name: data.roof.head, type: "line", symbol: "none", lineStyle: { color: color("ink"), width: 2, type: "dashed" },
      itemStyle: { color: color("ink") }, silent: true,
      data: ends.map((at) => ({ value: [at / x.size, Math.min(data.roof.peak, at * data.roof.bandwidth) / y.size] })),
    };
  }

  const DRAWN = { bars, stacked, spans, points };
  const MANY = 800;
  /* The pixels of a lying row: on a narrow window, names of three lines stand there. */
  const ROW = 30, TALL_ROW = 44, NARROW_WINDOW = 600;
  const charts = new Map();

  /* Draws a picture into an element, again if one is there. */
  function draw(element, data) {
    const few = data.rows.length <= MANY;
    const lying = data.kind === "bars" || data.kind === "spans" || data.lying;
    const rows = data.kind === "spans" ? new Set(data.rows.map(columnOf(data, data.rows_of).of)).size : data.rows.length;
    const drawn = DRAWN[data.kind](data), below = lines(drawn.series, element.clientWidth || 600);
    if (lying) element.style.height = 100 + 22 * below + (window.innerWidth < NARROW_WINDOW ? TALL_ROW : ROW) * Math.min(rows, 40) + "px";
    const old = charts.get(element);
    const chart = old ? old.chart : echarts.init(element, null, { renderer: few ? "svg" : "canvas" });
    chart.setOption(Object.assign(shared(data, below), drawn), true);
    chart.resize();
    element.setAttribute("aria-label", data.title + ". " + data.sentence);
    charts.set(element, { chart, data });
    return chart;
  }
  function again() {
    charts.forEach(({ data }, element) => draw(element, data));
  }
  /* All pictures of a page, whose data stand beside them. */
  function drawAll(root) {
    root.querySelectorAll("script.data").forEach((each) => {
      draw(document.getElementById(each.dataset.picture), JSON.parse(each.textContent));
    });
  }
  window.addEventListener("resize", again);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  window.ampedPictures = { draw, drawAll, again, charts };
})();
