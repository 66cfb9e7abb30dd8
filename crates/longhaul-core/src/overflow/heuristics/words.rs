//! Finds words for a prompt near words for too much, in the languages that providers use.

use std::sync::LazyLock;

use regex::bytes::Regex;

use crate::overflow::heuristics::statement::Statement;
use crate::overflow::heuristics::vetoes::compile;

/// Maximum distance between the two words in bytes. Asian letters take three.
const MAX_DISTANCE: usize = 90;

/// Words of a language.
struct Language {
    /// Words for a prompt, its parts and its room.
    prompt: &'static str,
    /// Words for too much, and for what then helps.
    excess: &'static str,
}

const LANGUAGES: &[Language] = &[
    // English.
    Language {
        prompt: r"\b(prompts?|contexts?|inputs?|conversation|histor(y|ies)|messages?|tokens?|sequences?|chat|text|transcript|n_ctx|contextsize)",
        excess: r"too (long|large|big|many|much)|exceed|overflow|\b(longer|larger|greater|bigger|higher|more) than|\bmore (\w+ ){1,2}than|\b(smaller|shorter|less) than (the|your|this) (input|prompt|request|conversation)|\b(past|beyond|over|above) (what|(the|its|our|your|this|an?) )|(does|do|did|can)(n't| not) (fit|hold)|(cannot|not|never|no longer) fits?\b|too much|out of|no (more )?(room|space)|(shorten|reduc|trim|compact|condens)\w* |\bfull\b|over max|at most|no more than|supports only|only supports|surpass|not enough|insufficient|beyond|over (the )?limit|spill|overrun|outgr(ew|ow)|than (the|this|our) (model|engine|window|server) can|\b(limit|maximum)\b.{0,40}\b(reached|hit)|(should|must)( not)? (be )?(less|at most|below|<|\[)",
    },
    // Chinese.
    Language {
        prompt: r"上下文|提示[词詞]|prompt|输入|輸入|对话|對話|会话|會話|消息|訊息|历史|歷史|文本|token|输入令牌|權杖|[字詞词][数數]|请求内容|請求內容",
        excess: r"超[过過出限长長]|缩短|縮短|减少|減少|精简|精簡|放不下|装不[下进]|删减|刪減|塞满|塞不下|撑爆|溢出|[过過太][长長大多]|[大多长長高][于於]|已[满滿]|不足|最[多大]支持|达到上限|達到上限",
    },
    // Japanese.
    Language {
        prompt: r"入力|プロンプト|コンテキスト|メッセージ|会話|履歴|トークン|テキスト|文章|文脈|リクエスト",
        excess: r"(長|大き|多)すぎ|短く|短縮|減らし|削減|入りき|超え|超過|上回|収ま(ら|り)|溢れ|はみ出|読み切れ|オーバー|上限に達|最大.{0,40}まで",
    },
    // Korean.
    Language {
        prompt: r"입력|프롬프트|컨텍스트|메시지|대화|토큰|텍스트|문맥|요청",
        excess: r"초과|줄여|줄이|짧게|들어가지 않|너무 (길|깁|긴|크|큽|큰|많)|넘(었|습|어|는|을)|보다 (길|깁|크|큽|많)|벗어(났|나)|까지만|최대 .{0,30}까지",
    },
    // Russian.
    Language {
        prompt: r"контекст|промпт|запрос|сообщени|вход|ввод|токен|диалог|истори|текст|переписк",
        excess: r"превы[шс]|превосход|слишком (длинн|больш|велик|много|объ[её]мн)|(больше|длиннее|более|выше),? ([а-яё]+ )?(чем|максим|допустим|предел)|сократ|укорот|не (помеща|умеща|вмеща|влеза|укладыва)|не более|не должн",
    },
    // German.
    Language {
        prompt: r"kontext|prompt|eingabe|anfrage|nachricht|verlauf|token|unterhaltung|gespräch|konversation|\btext",
        excess: r"zu (lang|gro(ß|ss)|viele|umfangreich)|überschr(eit|itt)|kürz|verkürz|über(steig|stieg)|(größer|länger|umfangreicher),? als|mehr ([a-zäöüß]+,? )?als|(passt|passen) nicht|spreng|höchstens|nicht mehr als",
    },
    // French.
    Language {
        prompt: r"contexte|prompt|invite|entrée|requête|messages?|conversation|jetons?|tokens?|historique|texte",
        excess: r"trop (long|grand|gros|volumineu|de (jetons|tokens|messages))|dépass|débord|raccourci|rédui(s|re)|excèd|excéd|supérieure? (à|au)|plus (longue?|grande?) que|plus de [a-z]+ que|aussi (long|grand)|au plus|au maximum",
    },
    // Spanish.
    Language {
        prompt: r"contexto|prompt|entrada|mensajes?|solicitud|petición|conversación|tokens?|historial|texto|indicación",
        excess: r"demasiad[oa]s? (larg|grande|extens|tokens|mensajes)|super(a|ó|an|ado)|exced|sobrepas|acort|reduzca|desbord|rebas|más ([a-z]+ )?(que|de l[oa]s? que)|no cabe|como máximo",
    },
    // Portuguese.
    Language {
        prompt: r"contexto|prompt|entrada|mensage(m|ns)|solicitação|requisição|conversa|tokens?|histórico|texto",
        excess: r"muito (long|grande|extens)|(long[oa]|grande|extens[oa]) demais|tokens demais|encurt|reduza|exced|ultrapass|super(a|ou|am)|maior (do )?que|mais ([a-z]+ )?(do )?que|não cabe|no máximo",
    },
];

/// Words for the window itself, near a word for its size.
const WINDOW: &str = r"context[ _-]?(window|length|limit|size)|\d ?[km]? (tokens? )?context|上下文|コンテキスト|컨텍스트|контекст|kontext(fenster|länge|limit)|contexte|contexto";

/// Words for the size of a prompt that name no prompt.
const MEASURES: &str = r"\b(length|seq|sequence|ctx|input_ids|kv cache)\b|长度|長度|長さ|길이|длин|länge|longueur|longitud|comprimento";

/// A statement of the window alone, which is a refusal of what came.
const ALONE: &str = r"max(imum)? (context|input|prompt) (length|window|size|tokens)( is| of|:)?( only)? \d|(due to|because of) (the |its )?(context|input|prompt) (length|size)";

/// A small count between the two words: the sentence is about so many of something else.
const COUNT_OF_SOMETHING_ELSE: &str = r"\b\d{1,2} [a-su-z][a-z]{3}|\d ?(条|件)|条数";

/// Whether a statement speaks of a prompt that is too large.
pub(super) fn name_overflow(statement: &Statement) -> bool {
    statement.sentences().any(sentence_names_overflow)
}

/// Whether a sentence speaks of a prompt that is too large.
pub(super) fn sentence_names_overflow(sentence: &str) -> bool {
    static PATTERNS: LazyLock<Vec<Regex>> = LazyLock::new(|| LANGUAGES.iter().map(near).collect());
    static LIMIT_ALONE: LazyLock<Regex> = LazyLock::new(|| compile(ALONE));
    static OTHER_UNIT: LazyLock<Regex> = LazyLock::new(|| compile(COUNT_OF_SOMETHING_ELSE));
    let bytes = sentence.as_bytes();
    let found = PATTERNS.iter().find_map(|pattern| pattern.find(bytes));
    found.is_some_and(|found| !OTHER_UNIT.is_match(found.as_bytes())) || LIMIT_ALONE.is_match(bytes)
}

/// Whether a text names a prompt, its parts or its measure.
pub(super) fn name_prompt(text: &str) -> bool {
    static PATTERN: LazyLock<Regex> = LazyLock::new(|| {
        let words: Vec<&str> = LANGUAGES.iter().map(|language| language.prompt).collect();
        compile(&format!("{}|{MEASURES}", words.join("|")))
    });
    PATTERN.is_match(text.as_bytes())
}

/// Whether a text names tokens or a context.
pub(super) fn name_tokens(text: &str) -> bool {
    static PATTERN: LazyLock<Regex> =
        LazyLock::new(|| compile(&format!("{}|{WINDOW}", super::vetoes::TOKENS)));
    PATTERN.is_match(text.as_bytes())
}

/// Whether a statement names the window, rather than a prompt or tokens.
pub(super) fn name_window(statement: &Statement) -> bool {
    static PATTERN: LazyLock<Regex> = LazyLock::new(|| compile(WINDOW));
    PATTERN.is_match(statement.text().as_bytes())
}

/// Compiles the pattern of a language: either word first.
fn near(language: &Language) -> Regex {
    let Language { prompt, excess } = language;
    compile(&format!(
        "(?:{prompt})(?s-u:.){{0,{MAX_DISTANCE}}}?(?:{excess})|(?:{excess})(?s-u:.){{0,{MAX_DISTANCE}}}?(?:{prompt})"
    ))
}
