"""Which LLM responses a campaign takes from the shared cache, and which it stores there.

A campaign that repeats a request, as after a rewind, wants a new response. So its n-th request of a
text is distinct, and is answered only by the n-th of another campaign.
"""

import hashlib
import json
import logging
from pathlib import Path

from services.campaigns.llm.answer_cache import AnswerCache, CachedAnswer
from services.campaigns.settings import CampaignSettings
from services.contracts.campaigns.llms import AnswerCaching
from services.inference.clients.chat import ChatRequest

logger = logging.getLogger(__name__)

FILE = "campaign-answers.db"
DAY_SECONDS = 86_400.0


class SharedAnswers:
    """The cache as seen by one campaign, which records its requests in ``folder``."""

    def __init__(self, policy: AnswerCaching, settings: CampaignSettings, folder: Path) -> None:
        size = settings.campaign_answer_mb << 20
        self._policy = policy if size else AnswerCaching()
        self._folder = folder
        self._cache = AnswerCache(
            settings.home / FILE, size, settings.campaign_answer_days * DAY_SECONDS
        )
        keys = (settings.gateway_api_key, settings.campaign_script_key)
        own = [key.get_secret_value() for key in keys if key is not None]
        self._secrets = [key for key in (*settings.endpoint_keys.values(), *own) if key]

    def find(self, place: str, base_url: str, request: ChatRequest) -> CachedAnswer | None:
        """The cached response to a request made at a place of the campaign."""
        if not self._policy.read:
            return None
        question = self._question(place, base_url, request)
        return None if question is None else self._cache.find(question)

    def keep(self, place: str, base_url: str, request: ChatRequest, answer: CachedAnswer) -> None:
        """Store a response for other campaigns, unless it repeats a secret."""
        if not self._policy.write or any(secret in answer.text for secret in self._secrets):
            return
        question = self._question(place, base_url, request)
        if question is not None:
            self._cache.keep(question, answer)

    def _question(self, place: str, base_url: str, request: ChatRequest) -> bytes | None:
        """The cache key of a request; None if the folder cannot be read or written."""
        asked = json.dumps([base_url, request.model_dump(mode="json")], sort_keys=True).encode()
        try:
            times = self._times_before(hashlib.sha256(asked).hexdigest(), place)
        except OSError as error:
            logger.warning("answers of LLMs are not shared now: %s", error)
            return None
        return hashlib.sha256(b"%d\n%s" % (times, asked)).digest()

    def _times_before(self, asked: str, place: str) -> int:
        """How many other places made this request before; the same for repeats of one place."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / asked).open("a+") as file:
            file.seek(0)
            if f"{place}\n" not in file:
                file.write(f"{place}\n")
                file.flush()
            file.seek(0)
            return file.readlines().index(f"{place}\n")
