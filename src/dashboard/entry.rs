//! Dashboard state of one conversation.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::account::report::{AccountReport, RequestReport};
use crate::account::{ConversationId, StoredAccount};
use crate::dashboard::dto::{ConversationDetails, ConversationDto, RequestPoint};
use crate::dashboard::request_delta::{ReadProgress, RequestDelta};
use crate::dashboard::touched_files::TouchedFiles;
use crate::wall_clock;
use longhaul_core::units::scope::RecordKey;

/// Maximum requests shown of each conversation, the most recent ones.
const MAX_POINTS: usize = 400;

/// Dashboard state of one conversation.
pub(super) struct DashboardEntry {
    pub(super) key: RecordKey,
    pub(super) dto: ConversationDto,
    files: TouchedFiles,
    points: VecDeque<RequestPoint>,
    /// Number of messages read.
    messages: usize,
    /// Revision of the last change.
    pub(super) revision: u64,
    /// Number of requests that have ended.
    ended: u64,
    /// Summary that replaces the history.
    summary: Option<Arc<str>>,
    /// Start times of the summaries being made.
    pub(super) compacting: Vec<u64>,
}

impl DashboardEntry {
    /// Creates the entry of a new conversation.
    pub(super) fn new(key: RecordKey) -> Self {
        let id = ConversationId::new(key).to_string();
        Self {
            key,
            dto: ConversationDto {
                id,
                ..ConversationDto::default()
            },
            files: TouchedFiles::default(),
            points: VecDeque::new(),
            messages: 0,
            revision: 0,
            ended: 0,
            summary: None,
            compacting: Vec::new(),
        }
    }

    pub(super) fn to_dto(&self) -> ConversationDto {
        ConversationDto {
            compacting: self.compacting.iter().min().copied(),
            ..self.dto.clone()
        }
    }

    /// Returns the details, with the requests after number `after`.
    pub(super) fn to_details(&self, after: u64) -> ConversationDetails {
        let points = self.points.iter().filter(|point| point.number > after);
        ConversationDetails {
            conversation: self.to_dto(),
            files: self.files.most_recent(),
            points: points.cloned().collect(),
            summary: self.summary.clone(),
        }
    }

    /// Returns the time of the newest request whose account is kept.
    pub(super) fn account_time(&self) -> Option<u64> {
        let points = self.points.iter().rev();
        points
            .filter(|point| point.has_account)
            .map(|point| point.at)
            .next()
    }

    /// Returns the account of the newest request that is `wanted`.
    pub(super) fn account(&self, wanted: impl Fn(&RequestPoint) -> bool) -> Option<AccountReport> {
        let mut points = self.points.iter().rev();
        let point = points.find(|point| point.has_account && wanted(point))?;
        let request = RequestReport {
            id: point.id.to_string(),
            conversation: self.dto.id.clone(),
            number: point.number,
            model: self.dto.model.clone(),
            at: point.at,
            duration_ms: point.duration_ms,
            status: point.status,
            actions: point.acts.iter().map(|act| (*act).into()).collect(),
            prompt_tokens: point.prompt_tokens,
            cached_tokens: point.cached_tokens,
            cost: point.cost,
        };
        Some(AccountReport::of_request(
            point.account.as_deref()?,
            request,
        ))
    }

    /// Returns the requests that ended after `at` with an error and without an account.
    pub(super) fn failures_after(&self, at: u64) -> impl Iterator<Item = &RequestPoint> {
        let points = self.points.iter().rev();
        points
            .take_while(move |point| point.at >= at)
            .filter(|point| point.is_error && !point.has_account)
    }

    /// Drops all text of the conversation, which must not be shown.
    pub(super) fn forget_content(&mut self) -> usize {
        self.summary = None;
        let accounts = self.points.iter_mut().filter_map(|it| it.account.as_mut());
        accounts
            .map(|account| {
                let before = account.weight();
                Arc::make_mut(account).texts.clear();
                before - account.weight()
            })
            .sum()
    }

    /// Drops all accounts and returns their weight.
    pub(super) fn forget_accounts(&mut self, keeps: usize) -> usize {
        let old = self.points.len().saturating_sub(keeps);
        let old = self.points.iter_mut().take(old);
        old.map(|point| {
            point.has_account = false;
            point.account.take().map_or(0, |account| account.weight())
        })
        .sum()
    }

    /// Records a request that has ended. Returns the weight of the accounts that the record adds and
    /// drops.
    pub(super) fn record_end(
        &mut self,
        mut point: RequestPoint,
        account: Option<StoredAccount>,
    ) -> (usize, usize) {
        self.ended += 1;
        point.number = self.ended;
        point.account = account.map(|mut account| {
            let mut points = self.points.iter().rev();
            let previous = points.find_map(|point| point.account.as_deref());
            account.date_changes(point.number, previous);
            Arc::new(account)
        });
        point.has_account = point.account.is_some();
        let added = point.account.as_ref().map_or(0, |account| account.weight());
        let mut dropped = 0;
        while self.points.len() >= MAX_POINTS {
            let oldest = self.points.pop_front();
            let account = oldest.and_then(|point| point.account);
            dropped += account.map_or(0, |account| account.weight());
        }
        self.points.push_back(point);
        (added, dropped)
    }

    /// Whether longhaul removed more from a request of these sizes than from the one before. Text
    /// that was removed before is removed from every later request too, so only a larger difference
    /// counts.
    pub(super) fn is_rewritten(&self, before: u64, after: u64) -> bool {
        let last = self.points.back();
        last.map_or(before != after, |last| {
            before.saturating_sub(after) > last.before.saturating_sub(last.after)
        })
    }

    /// Returns how much of the conversation was read.
    pub(super) fn progress(&self) -> ReadProgress {
        ReadProgress {
            messages: self.messages,
            has_title: !self.dto.title.is_empty(),
        }
    }

    /// Applies the changes of a request, and the summary that replaces its history.
    pub(super) fn apply(&mut self, news: RequestDelta, summary: Option<Arc<str>>) {
        // If another request of the conversation came in between, that request's files are kept,
        // and the next request is read from there.
        if news.messages_before == self.messages {
            if news.messages < self.messages {
                self.files = news.files;
            } else {
                self.files.append(news.files);
            }
            self.messages = news.messages;
        }
        if self.dto.title.is_empty() {
            self.dto.title = news.title.unwrap_or_default();
        }
        if let Some(body) = news.body {
            self.dto.body = body;
        }
        self.dto.model = news.model;
        self.dto.agent = news.agent;
        self.dto.caller = news.caller;
        self.dto.window = news.window;
        self.dto.requests += 1;
        self.dto.last = wall_clock::unix_millis();
        self.summary = summary;
    }
}
