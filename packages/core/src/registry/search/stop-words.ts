/**
 * Words that say nothing about what a tool does: English function words, and the courtesies with which people
 * wrap a request. Descriptions are indexed without them; names keep theirs, so `who_is` can be found.
 */
export const STOP_WORDS: ReadonlySet<string> = new Set(
  `a about above after again all also am an and any are aren as at be because been before being below between
  both but by can cannot could couldn did didn do does doesn doing don down during each either else etc few for
  from further had hadn has hasn have haven having he hello her here hers herself hey hi him himself his how
  however i if in into is isn it its itself just kindly let like ll may me might mine more most must my myself
  need neither no nor not now of off on once only or other our ours ourselves out over own please re same shall
  she should shouldn so some such than thank thanks that the their theirs them themselves then there these they
  this those through thus to too under until up upon us ve very want was wasn we were weren what when where
  whether which while who whom whose why will with within without won would wouldn yes you your yours yourself
  yourselves`.split(/\s+/),
);
