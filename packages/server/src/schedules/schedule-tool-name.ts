export const SCHEDULE_TOOL = "schedule_tool";
