/**
 * Whether an `Accept` header takes a type, such as `text/event-stream`: of the ranges that cover it the closest counts,
 * and with a weight of zero it refuses. Who sends none has not said what it takes.
 */
export function accepts(header: string, type: string): boolean {
  const ranges = [type, `${type.slice(0, type.indexOf("/"))}/*`, "*/*"];
  let closest = ranges.length;
  let isTaken = false;
  for (const part of header.split(",")) {
    const [range = "", ...parameters] = part.split(";").map((text) => text.trim().toLowerCase());
    const distance = ranges.indexOf(range);
    if (distance === -1 || distance > closest) continue;
    const isRefused = parameters.some((parameter) => NOTHING.test(parameter));
    isTaken = (distance === closest && isTaken) || !isRefused;
    closest = distance;
  }
  return isTaken;
}

const NOTHING = /^q\s*=\s*0(?:\.0*)?$/;
