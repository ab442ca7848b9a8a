//! Questions about strangers and new chats, from the message that raises one to the answer to all that waited.
//!
//! | file | tests |
//! |---|---|
//! | `senders` | whether a sender is heard |
//! | `chats` | what to do with a chat that no group is wired to |
//! | `answers` | by number, label, reply, button and command line; late, unclear, without the right |
//! | `naming` | a new agent's name |
//! | `ends` | expiry, cards that can't be said, a no that is remembered, bounds |
//! | `openings` | people who are not reached: chats that are opened, the next one who is asked |
//! | `order` | any order of messages, answers, time and restarts, against a model |
//! | `daemon` | all of it through the real daemon on local chats |
//!
//! The daemon dies at each step of it in `crash/approvals.rs`. Each trap has a test:
//!
//! | trap | test |
//! |---|---|
//! | a card that fails to be said blocks its sender for good | `ends::a_card_that_cannot_be_sent_blocks_nothing_and_another_person_is_asked_at_once` |
//! | two events at once make two cards | `senders::of_one_sender_in_one_chat_there_is_one_question_whatever_races` |
//! | messages that come meanwhile are lost | `senders::all_that_a_sender_said_meanwhile_is_answered_in_order_and_once` |
//! | of two groups only the first admits the sender | `senders::two_groups_that_do_not_know_a_sender_make_one_question_and_one_answer` |
//! | the replay collides with what another group of the chat has | `senders::a_replay_touches_no_other_group_of_the_chat` |
//! | a press without the right disarms the card | `answers::a_press_without_the_right_changes_nothing_and_is_audited` |
//! | a group whose messages have no thread is wired as a direct chat | `chats::a_chat_is_wired_as_its_kind_says_whatever_its_messages_threads` |
//! | nobody is left after the target group was removed | `chats::a_group_that_is_gone_cannot_be_chosen_and_the_question_stays` |
//! | a chat's no is stamped for ever | `ends::a_no_is_forgotten_unless_it_is_to_be_remembered` |
//! | the first or the last message alone is replayed | `chats::every_message_that_waited_is_answered_oldest_first` |
//! | the wait for a name is lost at a restart, or by an empty name | `naming::a_name_is_waited_for_across_restarts_and_asked_for_again` |
//! | a name is taken from somebody else | `naming::the_name_comes_from_the_person_who_was_asked` |
//! | bots and webhooks make cards without end | `chats::bots_and_our_own_messages_ask_nothing` |
//! | a scope of `known` makes no card, so nobody knows | `senders::a_wiring_for_known_senders_counts_and_does_not_ask` |

mod answers;
mod chats;
pub(crate) mod daemon;
mod ends;
mod naming;
mod openings;
mod order;
mod same;
mod senders;
mod world;
