//! What v1 tested of its formatting, its triggers, its zones and its scheduler, and which test of ours holds it.
#![expect(clippy::disallowed_methods, reason = "reads the repository")]

use std::{fs, path::Path};

const PROMPT: &str = "src/domain/runs/prompt/tests.rs";
const ENGAGE: &str = "src/domain/heard/engage/tests.rs";
const OUTBOUND: &str = "ipc-handlers/src/outbound.rs";
const ZONES: &str = "tests/it/clocks/zones.rs";

/// v1's suite, its case, our file, our test.
#[rustfmt::skip]
const CASES: [(&str, &str, &str, &str); 52] = [
    ("formatting", "escapes ampersands", PROMPT, "four_characters_are_escaped_and_no_other"),
    ("formatting", "escapes less-than", PROMPT, "four_characters_are_escaped_and_no_other"),
    ("formatting", "escapes greater-than", PROMPT, "four_characters_are_escaped_and_no_other"),
    ("formatting", "escapes double quotes", PROMPT, "four_characters_are_escaped_and_no_other"),
    ("formatting", "handles multiple special characters together", PROMPT, "four_characters_are_escaped_and_no_other"),
    ("formatting", "passes through strings with no special chars", PROMPT, "four_characters_are_escaped_and_no_other"),
    ("formatting", "handles empty string", PROMPT, "four_characters_are_escaped_and_no_other"),
    ("formatting", "formats a single message as XML with context header", PROMPT, "a_prompt_is_v1s_to_the_byte"),
    ("formatting", "formats multiple messages", PROMPT, "a_prompt_is_v1s_to_the_byte"),
    ("formatting", "handles empty array", PROMPT, "a_prompt_is_v1s_to_the_byte"),
    ("formatting", "renders reply context as quoted_message element", PROMPT, "a_prompt_is_v1s_to_the_byte"),
    ("formatting", "escapes special characters in sender names", PROMPT, "names_and_contents_are_escaped_wherever_they_stand"),
    ("formatting", "escapes special characters in content", PROMPT, "names_and_contents_are_escaped_wherever_they_stand"),
    ("formatting", "escapes special characters in reply context", PROMPT, "names_and_contents_are_escaped_wherever_they_stand"),
    ("formatting", "omits reply attributes when no reply context", PROMPT, "a_quote_needs_both_its_sender_and_its_text_and_an_id_stands_alone"),
    ("formatting", "omits quoted_message when content is missing but id is present", PROMPT, "a_quote_needs_both_its_sender_and_its_text_and_an_id_stands_alone"),
    ("formatting", "converts timestamps to local time for given timezone", PROMPT, "times_are_shown_in_the_users_zone_and_the_header_names_it"),
    ("formatting", "matches @name at start of message", ENGAGE, "the_default_trigger_is_matched_as_v1_tested_it"),
    ("formatting", "matches case-insensitively", ENGAGE, "the_default_trigger_is_matched_as_v1_tested_it"),
    ("formatting", "does not match when not at start of message", ENGAGE, "the_default_trigger_is_matched_as_v1_tested_it"),
    ("formatting", "does not match partial name like @NameExtra", ENGAGE, "the_default_trigger_is_matched_as_v1_tested_it"),
    ("formatting", "matches with word boundary before apostrophe", ENGAGE, "the_default_trigger_is_matched_as_v1_tested_it"),
    ("formatting", "matches @name alone", ENGAGE, "the_default_trigger_is_matched_as_v1_tested_it"),
    ("formatting", "matches with leading whitespace after trim", ENGAGE, "the_default_trigger_is_matched_as_v1_tested_it"),
    ("formatting", "uses the configured per-group trigger when provided", ENGAGE, "a_groups_own_trigger_is_literal_and_replaces_the_default"),
    ("formatting", "falls back to the default trigger when group trigger is missing", ENGAGE, "a_groups_own_trigger_is_literal_and_replaces_the_default"),
    ("formatting", "treats regex characters in custom triggers literally", ENGAGE, "a_groups_own_trigger_is_literal_and_replaces_the_default"),
    ("formatting", "strips single-line internal tags", OUTBOUND, "blocks_go_and_the_rest_stays_as_in_v1"),
    ("formatting", "strips multi-line internal tags", OUTBOUND, "blocks_go_and_the_rest_stays_as_in_v1"),
    ("formatting", "strips multiple internal tag blocks", OUTBOUND, "blocks_go_and_the_rest_stays_as_in_v1"),
    ("formatting", "returns empty string when text is only internal tags", OUTBOUND, "blocks_go_and_the_rest_stays_as_in_v1"),
    ("formatting", "formatOutbound: returns text with internal tags stripped", OUTBOUND, "blocks_go_and_the_rest_stays_as_in_v1"),
    ("formatting", "formatOutbound: returns empty string when all text is internal", OUTBOUND, "blocks_go_and_the_rest_stays_as_in_v1"),
    ("formatting", "formatOutbound: strips internal tags from remaining text", OUTBOUND, "blocks_go_and_the_rest_stays_as_in_v1"),
    ("formatting", "main group always processes", ENGAGE, "groups_registered_in_v1s_terms_process_what_v1_processed"),
    ("formatting", "main group processes even with requiresTrigger=true", ENGAGE, "groups_registered_in_v1s_terms_process_what_v1_processed"),
    ("formatting", "non-main group with requiresTrigger=undefined requires trigger", ENGAGE, "groups_registered_in_v1s_terms_process_what_v1_processed"),
    ("formatting", "non-main group with requiresTrigger=true requires trigger", ENGAGE, "groups_registered_in_v1s_terms_process_what_v1_processed"),
    ("formatting", "non-main group with requiresTrigger=true processes when trigger present", ENGAGE, "groups_registered_in_v1s_terms_process_what_v1_processed"),
    ("formatting", "non-main group uses per-group trigger instead of default", ENGAGE, "groups_registered_in_v1s_terms_process_what_v1_processed"),
    ("formatting", "non-main group does not process when only default trigger is present for custom-trigger group", ENGAGE, "groups_registered_in_v1s_terms_process_what_v1_processed"),
    ("formatting", "non-main group with requiresTrigger=false always processes", ENGAGE, "groups_registered_in_v1s_terms_process_what_v1_processed"),
    ("timezone", "formatLocalTime converts to the zone", ZONES, "one_instant_is_shown_by_the_clock_of_each_zone"),
    ("timezone", "formatLocalTime handles different zones", ZONES, "one_instant_is_shown_by_the_clock_of_each_zone"),
    ("timezone", "formatLocalTime does not throw on an invalid zone and shows UTC", ZONES, "a_name_that_is_no_zone_is_shown_as_utc_and_stops_nothing"),
    ("timezone", "isValidTimezone accepts IANA names", "src/domain/time/zone.rs", "names_that_v1_takes_are_taken_in_any_case_and_others_are_not"),
    ("timezone", "isValidTimezone rejects POSIX strings and garbage", "src/domain/time/zone.rs", "names_that_v1_takes_are_taken_in_any_case_and_others_are_not"),
    ("timezone", "resolveTimezone passes valid names through", "src/domain/time/zone.rs", "the_first_candidate_that_names_a_zone_is_taken_and_those_before_it_are_reported"),
    ("timezone", "resolveTimezone falls back to UTC", "src/domain/time/zone.rs", "the_first_candidate_that_names_a_zone_is_taken_and_those_before_it_are_reported"),
    ("task-scheduler", "computeNextRun returns null for once-tasks", "ipc-handlers/src/schedule/tests.rs", "once_has_a_first_run_only_and_a_cron_that_ended_none"),
    ("task-scheduler", "computeNextRun anchors interval tasks to their scheduled time", "ipc-handlers/src/schedule/interval.rs", "the_grid_is_kept_however_much_was_missed"),
    ("task-scheduler", "computeNextRun skips missed intervals without an infinite loop", "ipc-handlers/src/schedule/interval.rs", "the_grid_is_kept_however_much_was_missed"),
];

#[test]
fn each_of_v1s_cases_is_in_a_test_that_is_there() {
    for (suite, case, file, test) in CASES {
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
        assert!(text.contains(&format!("fn {test}()")), "{suite}: {case}: {file} has no {test}");
    }
}
