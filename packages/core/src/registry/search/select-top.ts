/**
 * The positions of the highest scores above 0 that `accept` agrees to, best first; `precedes` orders equal
 * scores. A heap of `limit` entries sees every score once, and `accept` is asked only about those that would
 * enter it.
 */
export function selectTop(
  scores: Float32Array,
  limit: number,
  accept: (position: number) => boolean,
  precedes: (left: number, right: number) => boolean,
): number[] {
  // The worst of the kept positions is at the root.
  const heap: number[] = [];
  for (let position = 0; position < scores.length; position++) {
    if (!(scores[position]! > 0)) continue;
    const full = heap.length >= limit;
    if (full && !isBetter(position, heap[0]!)) continue;
    if (!accept(position)) continue;
    if (!full) siftUp(heap.push(position) - 1);
    if (full) {
      heap[0] = position;
      siftDown();
    }
  }
  return heap.sort((left, right) => (isBetter(left, right) ? -1 : 1));

  function isBetter(left: number, right: number): boolean {
    const difference = scores[left]! - scores[right]!;
    return difference > 0 || (difference === 0 && precedes(left, right));
  }

  function siftUp(start: number): void {
    let child = start;
    while (child > 0) {
      const parent = (child - 1) >> 1;
      if (!isBetter(heap[parent]!, heap[child]!)) return;
      swap(parent, child);
      child = parent;
    }
  }

  function siftDown(): void {
    let parent = 0;
    for (;;) {
      const left = 2 * parent + 1;
      if (left >= heap.length) return;
      const right = left + 1;
      const worse = right < heap.length && isBetter(heap[left]!, heap[right]!) ? right : left;
      if (!isBetter(heap[parent]!, heap[worse]!)) return;
      swap(parent, worse);
      parent = worse;
    }
  }

  function swap(left: number, right: number): void {
    const kept = heap[left]!;
    heap[left] = heap[right]!;
    heap[right] = kept;
  }
}
