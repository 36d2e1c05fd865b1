// The points of several runs over common positions, of which there are no more than a chart can show.

const SLOTS = 2; // of a column of pixels: its least and its greatest value

/**
 * The positions and the values of each run, all as long: undefined where a run has no value. `runs`
 * are maps of positions to values. Where there are more positions than two for each of `columns`
 * pixels, they move by less than the width of one, within `range` or, if that is null, over all.
 */
export function overlay(runs, columns, range, isWhole) {
  const places = [...new Set(runs.flatMap((points) => [...points.keys()]))].sort((one, other) => one - other);
  if (runs.length < 2 || places.length <= SLOTS * columns) return [places, ...runs.map((points) => places.map((place) => points.get(place)))];
  const [from, to] = range ?? [places[0], places.at(-1)];
  const width = (to - from) / columns || 1;
  const used = new Map(); // the values of each run by column
  runs.forEach((points, run) => {
    for (const [place, value] of [...points].sort(([one], [other]) => one - other)) {
      // What is outside of the range only leads the line to its edge.
      const column = Math.max(-1, Math.min(columns, Math.floor((place - from) / width)));
      if (!used.has(column)) used.set(column, runs.map(() => []));
      used.get(column)[run].push(value);
    }
  });
  const sorted = [...used].sort(([one], [other]) => one - other);
  const at = (column, slot) => from + (column + (slot + 0.5) / SLOTS) * width;
  const shownAt = sorted.flatMap(([column]) => [0, 1].map((slot) => (isWhole ? Math.floor(at(column, slot)) : at(column, slot))));
  return [shownAt, ...runs.map((_, run) => sorted.flatMap(([column, values]) => slotsOf(values[run], column, columns)))];
}

/** What stays of the values of a run in a column: its extremes in their order, and a gap. */
function slotsOf(values, column, columns) {
  if (!values.length) return [undefined, undefined];
  if (column < 0) return [undefined, values.at(-1)];
  if (column === columns) return [values[0], undefined];
  const finite = values.filter((value) => value !== null);
  if (!finite.length) return [null, undefined];
  const [least, greatest] = [Math.min(...finite), Math.max(...finite)];
  if (finite.length < values.length) return [greatest, null];
  if (least === greatest) return [least, undefined];
  return values.indexOf(least) < values.indexOf(greatest) ? [least, greatest] : [greatest, least];
}
