export type { Difference, Problem } from "./expectation.ts";
export { type MockMode, mockModes, RecordedAnswers, standInFor } from "./mock.ts";
export {
  answersOf,
  type RecordingParts,
  recordAnswers,
  recordTest,
  standInValue,
} from "./recording.ts";
export { failureLines, problemText, resultLines, summaryLine, toJUnit } from "./report.ts";
export {
  type RunOptions,
  selectTests,
  type TestCallOptions,
  type TestRack,
  type TestReport,
  type TestResult,
  TestRunner,
} from "./runner.ts";
export {
  type Expectation,
  type InnerCall,
  type RecordedTool,
  type SavedCall,
  type SavedCaller,
  testFileSchema,
} from "./saved-call.ts";
export {
  type FoundTest,
  flawsOf,
  readTestFile,
  readTestFiles,
  type SavedTest,
  saveTest,
  TEST_FOLDER,
  type TestFile,
} from "./test-file.ts";
export { settleTest } from "./trial.ts";
export { UnwritableCall } from "./writer.ts";
