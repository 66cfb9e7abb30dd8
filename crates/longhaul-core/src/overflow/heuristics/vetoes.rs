//! Statements that are about something other than the window, in nine languages.

use std::sync::LazyLock;

use regex::bytes::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};

use crate::overflow::heuristics::numbers::StatedSize;
use crate::overflow::heuristics::statement::Statement;

/// Maximum compiled size of a pattern in bytes.
const MAX_COMPILED_BYTES: usize = 16 * 1024 * 1024;

/// Statuses, outer or inside a body, that no evidence outweighs: payment, throttling, overload, time,
/// storage, the path, the method, or the framing.
pub(super) fn is_final_status(status: u16) -> bool {
    matches!(
        status,
        402 | 404..=406 | 408 | 410 | 411 | 414 | 415 | 425 | 426 | 429 | 431 | 507 | 529
    )
}

/// Wordings about throttling, overload and money. No code outweighs these.
const FINAL: &[&str] = &[
    // Throttling and overload.
    r"(per|/|for this|each) ?(second|min\b|minute|hour|day|week|month)|\b(tpm|rpm|tpd|rpd|qps)\b",
    // `a second request` is no unit of time.
    r"\bthis (hour|week|month)\b|in the (last|past) (\d|minute|hour|day|week|month)|\b(per|your|the|in) week\b",
    r"\ba ?(min\b|minute|hour|day|week|month)|(requests?|tokens?|calls?|messages?|\d) a second\b|\ba second ?([,;)]|$)",
    r"\benqueued\b|too (frequent|many (concurrent |parallel )?(requests|calls))|slow down|in flight|concurren|queue|busy|overload",
    r"right now|throughput|\bburst|\brefill|\d/s\b|free memory|no (free )?slot|maintenance|维护|維護|メンテナンス|점검|обслуживан|wartung",
    r"try again (later|in)|retry (later|after|in)|later\.?$|please wait|\bwait (a|before|for|until)\b",
    r"本周|这周|這週|今週|이번 주|этой недел|в неделю|diese[rs]? woche|wöchentlich|cette semaine|par semaine|hebdomad|esta semana|por semana|semanal|desta semana",
    r"频繁|頻繁|并发|並發|每分钟|每分鐘|每秒|每日|每天|每月|当月|本月|今日|饱和|限流|稍后|稍後",
    r"リクエストが多|同時|分あたり|1日|本日|毎月|今月|しばらく|レート|割り?当て|使用済",
    r"요청이 너무 많|분당|초당|동시|이번 달|일일|매일|월간|잠시 후",
    r"слишком много запросов|в минуту|в секунду|в день|в сутки|суточн|месяч|позже|одновременн",
    r"zu viele anfragen|pro (minute|sekunde|tag|monat)|täglich|monatlich|später|gleichzeitig",
    r"trop de requêtes|par (minute|seconde|jour|mois)|mensuel|journalier|quotidien|plus tard|simultan",
    r"demasiadas (solicitudes|peticiones)|por (minuto|segundo|día|mes)\b|mensual|diari[oa]|más tarde",
    r"muitas (solicitações|requisições)|por (minuto|segundo|dia|mês)|mensal|diári[oa]|mais tarde",
    // Money and allowances.
    r"quota|credit|\bbalances?\b|billing|afford|(token|key|spending|monthly|daily) budget|allowance|spent|subscription|payment|per-model limit|billed at|surcharge",
    // A plan that is used up. A plan may also limit one request.
    r"(套餐|プラン|요금제|тариф|\btarif|forfait|abonnement|suscripción|assinatura|\bplano?\b).*(用|사용|использован|исчерпан|verbraucht|consomm|épuis|consumid|agotad|esgotad|usad[oa]|utilizad)",
    r"(用完|用尽|使い切|использован|исчерпан|verbraucht|consomm|épuis|consumid|agotad|esgotad|usad[oa]|utilizad).*(套餐|プラン|тариф|\btarif|forfait|abonnement|suscripción|assinatura|\bplano?\b)",
    r"额度|額度|余额|餘額|配额|配額|充值|欠费|令牌(额度|已)|利用上限|残高|使用限度|사용 한도|잔액|할당|квот|баланс|kontingent|guthaben|crédit|solde|cuota|\bcupo\b|saldo|\bcota\b|crédito",
];

/// Wordings about something else, whatever else the statement says.
const VETOES: &[&str] = &[
    // Content.
    r"flagged|severity|violat\w* (of )?(our|the|your|content|usage|terms|safety)|toxic|moderation|sensitive|敏感",
    // Credentials and models.
    r"authori[sz]ation|authenti|bearer|鉴权|鑑權|аутентиф|авториз|autentic",
    r"api.?key|access token|auth token|token (verification|has expired|expired)|invalid token|not found|does not exist|no such|expired",
    r"令牌长度|认证|認証|인증|만료|期限|срок действия|токен доступа|zugriffstoken|jeton d'accès|token de aces?so|expir[óoaé]",
    // Time.
    r"timed? ?out|took too long|deadline|cancell?ed|trop de temps|超时|超時|タイムアウト|시간이? 초과|시간 간격|тайм-?аут|anfragezeit|tiempo de espera|tempo limite|\bseconds\b|\d[ -]?second\b|within \d+ ?m?s\b|did not finish",
    // The output alone.
    r#"(^|[^+ `'"]) ?[`'"]?max_(new_|completion_|output_)?tokens[`'"]? (must|should) be (less|at most|lower|smaller|<)|(reasoning|thinking) (budget|limit)|per (reply|response|answer)"#,
    // Short items.
    r"\b\d{1,3} (characters|chars)\b|cache_key",
    // Other contexts.
    r"(cuda|security|execution|request|ssl|tls) context|context[_ ](management|cancel|deadline|beta)|\bcontext beta|out of memory",
    // Parameters and schemas.
    r"(string|array)[_ ]too[_ ]long|unknown (parameter|argument|field)|extra inputs|invalid (value|type)|(input|value|string|list) should (be|have|match)|^(messages|input)[.\[] ?\d|(should|must) be (a|an|of) |logit_bias|token id|unknown option|(valid|allowed|permitted) (values|options)|\bttl\b|\bstop\b.{0,12}(sequence|string)|nested|response.format|json.schema|_[a-z]+[`']? must be between|\b\d{1,4} turns\b|number of (turns|tools)|\bn ?= ?\d|duplicate|budget_tokens|\bn must",
    // Embeddings.
    r"embeddings? (batch|input|request|model|step|call|failed)|batch too|in (a |the |this )?batch|\d inputs",
    // Documents that cannot be parsed, and fields.
    r"(invalid|malformed|bad|broken) json|at offset|unexpected (end|character)|field (limit|length)",
];

/// Wordings about access, parameters, small rooms and framing. Two numbers that measure the request
/// outweigh these: gateways use such words for a prompt that is too large, too.
const OUTWEIGHED: &[&str] = &[
    r"policy|policies|blocked|guardrail|违规|違規|политик|заблокир|правил|richtlinie|blockiert|gesperrt|politique|bloqu|política|ポリシー|ブロック|정책|차단",
    r"unauthori[sz]ed|permission|not available",
    r"unsupported|not permitted|not supported|temperature|top_p|logprobs|vocabulary|template|metadata|\bone of\b",
    r"\d ?([kmg]i?b|bytes?|mo|ko|мб|кб)\b|bytes|header|\buri\b|entity too large",
    "too small",
];

/// Words for tools. They veto unless two numbers measure the request, or the tools are named as a part
/// of the prompt.
const TOOLS: &str = r"\btools?(\[|\b.{0,20}(too many|maximum|exceed|at most|too long|too large))|too many tools|tool (schema|description|name|call)|function\.name|工具|ツール|도구|инструмент|werkzeug|\boutils?\b|herramienta|ferramenta";

/// A prompt of which tools are a part.
const PROMPT_WITH_TOOLS: &str = r"\b(messages|prompt|input|conversation|history|transcript|context)( tokens)?,? (\(?(with|including|incl\.?|plus|and|containing)|\+)( (the|its|their|your|all|any))? tools?\b";

/// Words for media and files. They veto unless the statement also names tokens or the context.
const MEDIA: &str = r"\b(images?|pictures?|photos?|audio|videos?|files?|pdf|pages?|pixels?|megapixels?|attachments?|documents? has)\b|图片|圖片|图像|圖像|文件|附件|音频|视频|画像|ファイル|音声|동영상|이미지|파일|изображен|файл|\bbild|\bdatei|fichier|\bimagen|archivo|\bimagem|arquivo";

/// Words that lift the veto of [`MEDIA`].
pub(super) const TOKENS: &str = r"token|context|jeton|токен|контекст|トークン|토큰";

/// Words for the output. They veto unless the statement also names the prompt.
const OUTPUT: &str = r"max_(new_|completion_|output_)?tokens|maximum tokens (you|value|param)|maxoutputtokens|output|completion|thinking|生成(长度|長度|する|される|数|文字|上限|最大|token|トークン)|(最大|最多)生成|输出|輸出|出力|출력|выходн|ausgabe|sortie|salida|saída";

/// Words for the prompt that lift the veto of [`OUTPUT`].
const PROMPT: &str = r"prompt|input|prefill|sequence|positions?\b|context|messages|conversation|history|上下文|输入|輸入|对话|プロンプト|入力|コンテキスト|프롬프트|입력|컨텍스트|запрос|контекст|входн|eingabe|kontext|entrée|invite|contexte|entrada|contexto";

/// Whether a statement is about throttling, overload or money.
pub(super) fn is_final(statement: &Statement) -> bool {
    static FINAL_SET: LazyLock<RegexSet> = LazyLock::new(|| compile_set(FINAL));
    let mut sentences = statement.sentences();
    sentences.any(|one| FINAL_SET.is_match(one.as_bytes()))
}

/// Whether a statement is about something other than the window. `measured` is the size of the request
/// with a smaller limit, if the refusal states both.
pub(super) fn is_vetoed(statement: &Statement, measured: Option<StatedSize>) -> bool {
    static VETO_SET: LazyLock<RegexSet> = LazyLock::new(|| compile_set(VETOES));
    static OUTWEIGHED_SET: LazyLock<RegexSet> = LazyLock::new(|| compile_set(OUTWEIGHED));
    static OUTPUT_PATTERN: LazyLock<Regex> = LazyLock::new(|| compile(OUTPUT));
    static PROMPT_PATTERN: LazyLock<Regex> = LazyLock::new(|| compile(PROMPT));
    static MEDIA_PATTERN: LazyLock<Regex> = LazyLock::new(|| compile(MEDIA));
    static TOKENS_PATTERN: LazyLock<Regex> = LazyLock::new(|| compile(TOKENS));
    static TOOLS_PATTERN: LazyLock<Regex> = LazyLock::new(|| compile(TOOLS));
    static WITH_TOOLS_PATTERN: LazyLock<Regex> = LazyLock::new(|| compile(PROMPT_WITH_TOOLS));
    let text = statement.text().as_bytes();
    let is_measured = measured.is_some();
    // An output beside the two numbers is a part of the sum.
    let is_sum = measured.is_some_and(|stated| stated.output.is_some());
    let is_output = OUTPUT_PATTERN.is_match(text) && !PROMPT_PATTERN.is_match(text) && !is_sum;
    let names_tools = |one: &[u8]| TOOLS_PATTERN.is_match(one) && !WITH_TOOLS_PATTERN.is_match(one);
    let is_media = MEDIA_PATTERN.is_match(text) && !TOKENS_PATTERN.is_match(text);
    is_output
        || is_media
        || is_final(statement)
        || statement.sentences().any(|one| {
            let one = one.as_bytes();
            VETO_SET.is_match(one)
                || (!is_measured && (OUTWEIGHED_SET.is_match(one) || names_tools(one)))
        })
}

#[expect(
    clippy::expect_used,
    reason = "patterns are constants, and the tests compile each"
)]
fn compile_set(patterns: &[&str]) -> RegexSet {
    let mut builder = RegexSetBuilder::new(patterns.iter().map(|veto| ascii_classes(veto)));
    builder
        .size_limit(MAX_COMPILED_BYTES)
        .build()
        .expect("valid patterns")
}

#[expect(
    clippy::expect_used,
    reason = "patterns are constants, and the tests compile each"
)]
pub(super) fn compile(pattern: &str) -> Regex {
    let mut builder = RegexBuilder::new(&ascii_classes(pattern));
    builder
        .size_limit(MAX_COMPILED_BYTES)
        .build()
        .expect("a valid pattern")
}

/// Restricts boundaries, digits and letters of words to ASCII. A Chinese letter is then no part of the
/// English word beside it.
fn ascii_classes(pattern: &str) -> String {
    pattern
        .replace(r"\b", r"(?-u:\b)")
        .replace(r"\d", r"(?-u:\d)")
        .replace(r"\w", r"(?-u:\w)")
}
