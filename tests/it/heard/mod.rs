//! The senders that agents hear, and how a person finds out why.
//!
//! What other programs of this kind got wrong, and the test that holds it here:
//!
//! | trap | test |
//! |---|---|
//! | a mode or a scope that nothing knows is stored, and the chat falls silent | `wirings::an_unknown_mode_or_scope_is_refused_with_the_list_of_known_ones` |
//! | every event of any chat writes a user | `people::a_sender_is_not_thereby_a_user` |
//! | a refusal is counted twice, and its reason overwritten | `people::an_unheard_message_is_counted_once_under_its_own_rule` |
//! | dropped messages are one row per chat for all senders | `people::unheard_messages_are_counted_by_sender` |
//! | a refusal by `sender_scope` leaves no trace | `people::a_wiring_for_known_senders_counts_strangers_in_an_open_chat_too` |
//! | an admin of one group is heard by others | `people::an_admin_of_one_group_is_a_stranger_to_another` |
//! | one group that fails ends the fan-out | `wirings::a_group_that_can_not_be_read_stops_no_other` |
//! | one pattern that fails ends the fan-out | `wirings::a_rule_that_fails_stops_no_other` |
//! | two catch-all wirings answer twice, unnoticed | `wirings::two_groups_that_take_everything_are_warned_about_when_they_are_made_so` |
//! | a message that is kept as context makes a thread sticky | `sticky::chatter_that_is_kept_makes_no_thread_sticky` |
//! | a mention that is refused makes it sticky | `sticky::a_mention_by_somebody_who_is_not_heard_makes_no_thread_sticky` |
//! | one thread's mark is another's | `sticky::a_mark_is_one_thread_s` |
//! | a mention in a channel has the agent answer every later line of it | `sticky::the_main_line_of_a_group_is_no_thread` |
//! | a mark never ends | `sticky::a_mark_ends_by_hand_with_the_session_and_with_the_wiring_s_mode` |
//! | direct chats are never sticky | `sticky::a_direct_chat_keeps_a_mark_as_a_group_does` |
//! | a stranger's chatter reaches the prompt | `people::messages_of_strangers_are_no_context_unless_they_are_heard` |
//! | chatter is handed to a live agent as if it were addressed | `sticky::chatter_wakes_no_agent_that_is_still_there` |
//! | a list that can't be read lets everybody in | `senders::a_list_that_can_not_be_read_lets_only_owners_through_and_says_so` |
//! | a list needs a restart | `senders::a_list_is_honoured_as_it_is_now_without_a_restart` |
//! | bots' and own messages are counted as dropped | `people::bots_and_we_ourselves_are_not_heard_and_not_counted` |
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod chats;
mod people;
mod senders;
mod sticky;
mod wirings;
