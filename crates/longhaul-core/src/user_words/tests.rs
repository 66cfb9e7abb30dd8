//! Tests of the words of users.

mod approvals;
mod pastes;
mod proposals;
mod replacements;
mod rules;
mod sentences;
mod vocabulary;
